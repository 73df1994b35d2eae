"""Numbered, forward-only SQL files: each applied once, in order, by one process at a time, never edited afterwards."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# The driver has no types.

import hashlib
import re
from dataclasses import dataclass
from importlib import resources

import asyncpg
import structlog

_LOG = structlog.get_logger(__name__)
_NAME = re.compile(r"^(\d{4})_(pre|post)_[a-z0-9_]+\.sql$")
# Any constant will do, as long as every release uses the same one.
_LOCK = 0x64726167


class MigrationError(Exception):
    """The schema cannot be brought to what this release needs; the message says why."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of the sequence."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """What the file said when it was applied."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def in_transaction(self) -> bool:
        """Whether it may run in a transaction; CREATE INDEX CONCURRENTLY may not."""
        return not self.sql.startswith("-- no-transaction")


def list_migrations() -> list[Migration]:
    """The files that ship with this release, in order."""
    found = [
        Migration(int(match[1]), entry.name, entry.read_text(encoding="utf-8"))
        for entry in resources.files("dragoman.infra.db").joinpath("migrations").iterdir()
        if (match := _NAME.match(entry.name))
    ]
    return sorted(found, key=lambda migration: migration.number)


async def migrate(url: str, migrations: list[Migration] | None = None) -> int:
    """Apply what is missing and say how many files that was; safe when many processes start at once.

    Raises:
        MigrationError: an applied file was edited, the database is newer than this release, a file failed, or
            PostgreSQL does not let us in.
    """
    wanted = list_migrations() if migrations is None else migrations
    try:
        connection = await asyncpg.connect(url, timeout=10)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise MigrationError(f"cannot connect to PostgreSQL: {error or 'it does not answer'}") from error
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
        applied = await _applied(connection)
        _compare(applied, wanted)
        missing = [migration for migration in wanted if migration.number not in applied]
        for migration in missing:
            await _apply(connection, migration)
        await _enable_meaning(connection)
        return len(missing)
    except asyncpg.InsufficientPrivilegeError as error:
        raise MigrationError(
            f"the database user is not allowed to migrate ({error}): give it CREATEROLE and ownership of the database, "
            "or set DRAGOMAN_DATABASE_ADMIN_URL to a user that has them"
        ) from error
    finally:
        await connection.close()


async def _applied(connection: asyncpg.Connection) -> dict[int, tuple[str, str]]:
    await connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_migrations "
        "(number int PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, "
        "applied_at timestamptz NOT NULL DEFAULT now())"
    )
    rows = await connection.fetch("SELECT number, name, checksum FROM schema_migrations")
    return {row["number"]: (row["name"], row["checksum"]) for row in rows}


def _compare(applied: dict[int, tuple[str, str]], wanted: list[Migration]) -> None:
    known = {migration.number: migration for migration in wanted}
    for number, (name, checksum) in sorted(applied.items()):
        if number not in known:
            raise MigrationError(f"the database has {name}, which this release does not know: it is of a newer version")
        if known[number].checksum != checksum:
            raise MigrationError(f"{known[number].name} was edited after it was applied; restore it and add a new file")


async def _enable_meaning(connection: asyncpg.Connection) -> None:
    """Take up pgvector where it came after the schema; most starts find it there."""
    if await connection.fetchval("SELECT to_regproc('memory_enable_meaning') IS NOT NULL"):
        await connection.execute("SELECT memory_enable_meaning()")
    if await connection.fetchval("SELECT to_regproc('knowledge_enable_meaning') IS NOT NULL"):
        await connection.execute("SELECT knowledge_enable_meaning()")


async def _apply(connection: asyncpg.Connection, migration: Migration) -> None:
    record = "INSERT INTO schema_migrations (number, name, checksum) VALUES ($1, $2, $3)"
    try:
        if migration.in_transaction:
            async with connection.transaction():
                await connection.execute(migration.sql)
                await connection.execute(record, migration.number, migration.name, migration.checksum)
        else:
            await connection.execute(migration.sql)
            await connection.execute(record, migration.number, migration.name, migration.checksum)
    except asyncpg.InsufficientPrivilegeError:
        raise
    except asyncpg.PostgresError as error:
        raise MigrationError(f"{migration.name} failed: {error}") from error
    _LOG.info("migration.applied", name=migration.name)
