"""Every statement runs in a scope: a tenant's, the platform's, or nobody's.

Row-level security reads the scope from two settings of the session. A connection remembers the scope it was last
given, so that the next statement for the same tenant costs one round trip and not three; taking a connection for
another scope, or for none, always sets it first. A statement that forgets its tenant therefore runs in nobody's scope
and sees nothing.
"""
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# The driver has no types.

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter
from typing import Any, LiteralString
from uuid import UUID

import asyncpg
import structlog

from dragoman.errors import UpstreamUnavailable
from dragoman.infra.db.failures import DRIVER_ERRORS, refuses_user, translated
from dragoman.infra.db.migrator import MigrationError
from dragoman.infra.db.pool import NOBODY, Connection, Pool, Scope

APP_ROLE = "dragoman_app"
CORE_ROLE = "dragoman_core"

Row = asyncpg.Record
_LOG = structlog.get_logger(__name__)
# After these nobody knows what the connection is about to say.
_CUT_SHORT = (asyncio.CancelledError, TimeoutError, asyncpg.InternalClientError)


@dataclass(slots=True)
class _Unit:
    database: "Database"
    scope: Scope
    connection: Connection
    after: list[Callable[[], Awaitable[None]]]
    # A task that was started inside may outlive it; the connection then belongs to someone else.
    open: bool = True
    cut_short: bool = False


_UNIT: ContextVar[_Unit | None] = ContextVar("dragoman_unit", default=None)


class Database:
    """Runs SQL in a scope. Inside `unit` every call joins that one transaction.

    `by_index` is for those who know their rows by keys. A plan that is made while a queue is empty reads it from end to
    end, which costs nothing then, and is kept when it is long: with this, PostgreSQL scans only where no index leads.
    With `lock_s` no statement waits longer for a lock, and no transaction keeps its locks for longer without a word: a
    process that is cut off in the middle of one does not hold up the others.
    """

    def __init__(
        self,
        url: str,
        *,
        role: str = APP_ROLE,
        size: int = 20,
        wait_s: float = 5.0,
        by_index: bool = False,
        lock_s: float | None = None,
    ) -> None:
        self._pool = Pool(url, role=role, size=size, wait_s=wait_s, by_index=by_index, lock_s=lock_s)

    async def start(self) -> None:
        """Connect once, to know that it can be done.

        Raises:
            UpstreamUnavailable: PostgreSQL does not answer.
            MigrationError: it does, but this user may not work in the role of the application.
        """
        try:
            await self.ping()
        except (RuntimeError, UpstreamUnavailable) as error:
            if not refuses_user(error.__cause__):
                raise
            raise MigrationError(
                f"PostgreSQL refuses the user of DRAGOMAN_DATABASE_URL ({error.__cause__}): as an administrator, "
                f"GRANT {APP_ROLE}, {CORE_ROLE} to it"
            ) from error

    async def stop(self) -> None:
        """Give the connections back."""
        await self._pool.close()

    async def ping(self) -> float:
        """Seconds for the shortest possible statement."""
        started = perf_counter()
        await self.fetch(NOBODY, "SELECT 1")
        return perf_counter() - started

    async def fetch(self, scope: Scope, sql: LiteralString, *args: Any) -> Sequence[Row]:
        """All rows."""
        return await self._run(scope, Connection.fetch, sql, args)

    async def find(self, scope: Scope, sql: LiteralString, *args: Any) -> Row | None:
        """The first row, or None."""
        return await self._run(scope, Connection.fetchrow, sql, args)

    async def execute(self, scope: Scope, sql: LiteralString, *args: Any) -> int:
        """Run it and say how many rows it touched."""
        status: str = await self._run(scope, Connection.execute, sql, args)
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def copy(self, scope: Scope, table: LiteralString, source: AsyncIterable[bytes], **options: str) -> int:
        """Copy CSV into a table and return the number of rows.

        PostgreSQL refuses this for tables with row-level security: copy into a temporary table, in a unit. `options`
        are the `delimiter`, the `quote`, its `escape`, and the text for `null`.
        """

        async def copy(connection: Connection, _: str) -> str:
            return await connection.copy_to_table(table, source=source, format="csv", **options)

        status: str = await self._run(scope, copy, "", ())
        return int(status.rpartition(" ")[2])

    @asynccontextmanager
    async def unit(self, scope: Scope) -> AsyncGenerator[None]:
        """One transaction around everything that the block does with this database in this scope.

        A unit inside a unit joins it. Leaving by an exception rolls all of it back.
        """
        if self._open_unit(scope) is not None:
            yield
            return
        failure: BaseException | None = None
        try:
            connection = await self._pool.take(scope)
            unit = _Unit(self, scope, connection, [])
            try:
                async with connection.transaction():
                    token = _UNIT.set(unit)
                    try:
                        yield
                    except BaseException as error:
                        failure = error
                        raise
                    finally:
                        _UNIT.reset(token)
                        unit.open = False
            except BaseException as error:
                if unit.cut_short or isinstance(error, _CUT_SHORT):
                    self._pool.drop(connection)
                else:
                    self._pool.give(connection)
                raise
            self._pool.give(connection)
        except DRIVER_ERRORS as error:
            if error is failure:  # of the block itself, which may have troubles of its own with files and time
                raise
            raise translated(error) from error
        await _follow_up(unit.after)

    @property
    def in_unit(self) -> bool:
        """Whether a unit of this database is open here: what is done now is part of its transaction."""
        return (unit := _UNIT.get()) is not None and unit.database is self and unit.open

    @property
    def open_scope(self) -> Scope | None:
        """The scope of the unit of this database that is open here, if one is."""
        unit = _UNIT.get()
        return unit.scope if unit is not None and unit.database is self and unit.open else None

    def scope_for(self, tenant: UUID) -> Scope:
        """The scope in which a tenant's rows are read here: that of the open unit, where it is this tenant's."""
        unit = _UNIT.get()
        joins = unit is not None and unit.database is self and unit.open and unit.scope.tenant == tenant
        return unit.scope if unit is not None and joins else Scope(tenant)

    async def after_commit(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Run it once the open unit is committed, never if it is rolled back; at once when there is no unit.

        What is committed stays so: a callback of a unit that fails is logged, and the next one runs.
        """
        if (unit := _UNIT.get()) is not None and unit.database is self and unit.open:
            unit.after.append(callback)
        else:
            await callback()

    async def _run(self, scope: Scope, how: Callable[..., Awaitable[Any]], sql: str, args: tuple[Any, ...]) -> Any:
        # No context managers: this is the shortest way to a row, and every request goes it.
        try:
            if (unit := self._open_unit(scope)) is not None:
                return await _run_in(unit, how, sql, args)
            connection = await self._pool.take(scope)
            try:
                result = await how(connection, sql, *args)
            except _CUT_SHORT:
                self._pool.drop(connection)
                raise
            except BaseException:
                self._pool.give(connection)
                raise
            self._pool.give(connection)
        except DRIVER_ERRORS as error:
            raise translated(error) from error
        return result

    def _open_unit(self, scope: Scope) -> _Unit | None:
        unit = _UNIT.get()
        if unit is None or unit.database is not self or not unit.open:
            return None
        if unit.scope != scope:
            raise RuntimeError(f"a unit of work for {unit.scope} cannot run a statement for {scope}")
        return unit


async def _run_in(unit: _Unit, how: Callable[..., Awaitable[Any]], sql: str, args: tuple[Any, ...]) -> Any:
    try:
        return await how(unit.connection, sql, *args)
    except _CUT_SHORT:
        unit.cut_short = True
        raise


async def _follow_up(callbacks: Sequence[Callable[[], Awaitable[None]]]) -> None:
    for callback in callbacks:
        try:
            await callback()
        except Exception:  # noqa: BLE001 - it is committed: to fail now would be to deny what has happened
            _LOG.exception("after_commit.failed")
