"""Numbered, forward-only SQL files: each applied once, in order, by one process at a time, never edited afterwards.

Those of an installed plugin have numbers of their own and come after ours.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# The driver has no types.

import asyncio
import hashlib
import re
from dataclasses import dataclass
from importlib import resources
from typing import LiteralString

import asyncpg
import structlog

from dragoman.infra.extensions import installed_extensions

_LOG = structlog.get_logger(__name__)
_NAME = re.compile(r"^(\d{4})_(pre|post)_[a-z0-9_]+\.sql$")
_MAY_MIGRATE: LiteralString = """
SELECT to_regclass('schema_migrations') IS NULL OR pg_has_role(current_user, relowner, 'USAGE')
FROM (SELECT 1) one LEFT JOIN pg_class ON oid = to_regclass('schema_migrations')"""
_TABLES: LiteralString = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    number int PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS plugin_migrations (
    plugin text NOT NULL, number int NOT NULL, name text NOT NULL, checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (plugin, number)
);
GRANT SELECT ON plugin_migrations TO PUBLIC"""
_LISTED: LiteralString = "SELECT '' AS plugin, number, name, checksum FROM schema_migrations"
_LISTED_WITH_PLUGINS: LiteralString = """
SELECT '' AS plugin, number, name, checksum FROM schema_migrations
UNION ALL SELECT plugin, number, name, checksum FROM plugin_migrations"""
_RECORD: LiteralString = "INSERT INTO schema_migrations (number, name, checksum) VALUES ($1, $2, $3)"
_RECORD_OF_PLUGIN: LiteralString = """
INSERT INTO plugin_migrations (plugin, number, name, checksum) VALUES ($1, $2, $3, $4)"""
# Any constant will do, as long as every release uses the same one.
_LOCK = 0x64726167
_LOCK_POLL_S = 0.1


class MigrationError(Exception):
    """The schema cannot be brought to what this release needs; the message says why."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of a sequence: ours, or that of a plugin."""

    number: int
    name: str
    sql: str
    plugin: str = ""

    @property
    def key(self) -> tuple[str, int]:
        """Which one it is."""
        return self.plugin, self.number

    @property
    def checksum(self) -> str:
        """What the file said when it was applied."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def in_transaction(self) -> bool:
        """Whether it may run in a transaction; CREATE INDEX CONCURRENTLY may not."""
        return not self.sql.startswith("-- no-transaction")


def list_migrations() -> list[Migration]:
    """Return the files of this release and of the installed plugins, in the order in which they are applied."""
    own = _files("dragoman.infra.db.migrations", "")
    extensions = [one for one in installed_extensions().values() if one.migrations]
    return [*own, *(file for one in extensions for file in _files(one.migrations, one.name))]


def _files(package: str, plugin: str) -> list[Migration]:
    found = [
        Migration(int(match[1]), entry.name, entry.read_text(encoding="utf-8"), plugin)
        for entry in resources.files(package).iterdir()
        if (match := _NAME.match(entry.name))
    ]
    return sorted(found, key=lambda migration: migration.number)


async def migrate(url: str, migrations: list[Migration] | None = None) -> int:
    """Apply what is missing and say how many files that was; safe when many processes start at once.

    A user who does not own the schema only checks that nothing is missing.

    Raises:
        MigrationError: an applied file was edited, the database is newer than this release, a file failed, something is
            missing that this user may not apply, or PostgreSQL does not let us in.
    """
    wanted = list_migrations() if migrations is None else migrations
    try:
        connection = await asyncpg.connect(url, timeout=10)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise MigrationError(f"cannot connect to PostgreSQL: {error or 'it does not answer'}") from error
    try:
        if not await connection.fetchval(_MAY_MIGRATE):
            await _check(connection, wanted)
            return 0
        await _lock(connection)
        applied = await _applied(connection)
        _compare(applied, wanted)
        missing = [migration for migration in wanted if migration.key not in applied]
        for migration in missing:
            await _apply(connection, migration)
        await _enable_meaning(connection)
        await _force_row_security(connection)
        return len(missing)
    except asyncpg.InsufficientPrivilegeError as error:
        raise MigrationError(
            f"the database user is not allowed to migrate ({error}): give it CREATEROLE and ownership of the database, "
            "or set DRAGOMAN_DATABASE_ADMIN_URL to a user that has them"
        ) from error
    finally:
        await connection.close()


async def _lock(connection: asyncpg.Connection) -> None:
    """Wait until no other process migrates, without a statement that waits.

    CREATE INDEX CONCURRENTLY waits for every statement that began before it, those that wait for its lock included.
    """
    while not await connection.fetchval("SELECT pg_try_advisory_lock($1)", _LOCK):  # noqa: ASYNC110 - of other processes
        await asyncio.sleep(_LOCK_POLL_S)


async def _check(connection: asyncpg.Connection, wanted: list[Migration]) -> None:
    applied = await _listed(connection)
    _compare(applied, wanted)
    if missing := [migration.name for migration in wanted if migration.key not in applied]:
        raise MigrationError(
            f"the database lacks {missing[0]}, and this user may not apply it: run `dragoman migrate` as the owner of "
            "the database, or set DRAGOMAN_DATABASE_ADMIN_URL to the owner"
        )


async def _applied(connection: asyncpg.Connection) -> dict[tuple[str, int], tuple[str, str]]:
    await connection.execute(_TABLES)
    return await _listed(connection)


async def _listed(connection: asyncpg.Connection) -> dict[tuple[str, int], tuple[str, str]]:
    # A schema of a release before plugins has no table for theirs, and a user who owns nothing cannot make it.
    plugins = await connection.fetchval("SELECT to_regclass('plugin_migrations') IS NOT NULL")
    rows = await connection.fetch(_LISTED_WITH_PLUGINS if plugins else _LISTED)
    return {(row["plugin"], row["number"]): (row["name"], row["checksum"]) for row in rows}


def _compare(applied: dict[tuple[str, int], tuple[str, str]], wanted: list[Migration]) -> None:
    known = {migration.key: migration for migration in wanted}
    series = {migration.plugin for migration in wanted} | {""}
    for (plugin, number), (name, checksum) in sorted(applied.items()):
        if plugin not in series:
            continue  # of a plugin that is not installed here; what it made stays
        if (plugin, number) not in known:
            raise MigrationError(f"the database has {name}, which this release does not know: it is of a newer version")
        if known[plugin, number].checksum != checksum:
            raise MigrationError(f"{name} was edited after it was applied; restore it and add a new file")


async def _enable_meaning(connection: asyncpg.Connection) -> None:
    """Take up pgvector where it came after the schema; most starts find it there."""
    if await connection.fetchval("SELECT to_regproc('memory_enable_meaning') IS NOT NULL"):
        await connection.execute("SELECT memory_enable_meaning()")
    if await connection.fetchval("SELECT to_regproc('knowledge_enable_meaning') IS NOT NULL"):
        await connection.execute("SELECT knowledge_enable_meaning()")


async def _force_row_security(connection: asyncpg.Connection) -> None:
    """Lock every table to its owner too, those of the migrations of a moment ago included."""
    if await connection.fetchval("SELECT to_regprocedure('force_row_security()') IS NOT NULL"):
        async with connection.transaction():
            await connection.execute("SET LOCAL lock_timeout = '5s'")
            await connection.execute("SELECT force_row_security()")


async def _apply(connection: asyncpg.Connection, migration: Migration) -> None:
    record, place = (_RECORD_OF_PLUGIN, (migration.plugin,)) if migration.plugin else (_RECORD, ())
    values = (*place, migration.number, migration.name, migration.checksum)
    try:
        if migration.in_transaction:
            async with connection.transaction():
                await connection.execute(migration.sql)
                await connection.execute(record, *values)
        else:
            # One by one: several in one message would be a transaction. A file that failed half-way is run again whole.
            for statement in _statements(migration.sql):
                await connection.execute(statement)
            await connection.execute(record, *values)
    except asyncpg.InsufficientPrivilegeError:
        raise
    except asyncpg.PostgresError as error:
        raise MigrationError(f"{migration.name} failed: {error}") from error
    _LOG.info("migration.applied", name=migration.name)


def _statements(sql: str) -> list[str]:
    lines = [line for line in sql.splitlines() if not line.startswith("--")]
    return [statement for statement in map(str.strip, "\n".join(lines).split(";")) if statement]
