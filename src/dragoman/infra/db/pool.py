"""Connections that remember whose rows they may see.

The driver's own pool resets a connection and starts a task each time it is given back, which is a quarter of a short
read. This one hands a connection on as it is, prefers one that was last used in the same scope, and trusts none whose
last statement was cut short.
"""
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# The driver has no types.

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import LiteralString, cast
from uuid import UUID

import asyncpg
import orjson

from dragoman.context import Caller
from dragoman.infra.db.failures import PoolExhausted

# How many idle connections are looked through for one in the right scope.
_LOOK_THROUGH = 8
# A connection that was not needed for so long is closed, but for these: each takes megabytes of PostgreSQL.
_SPARE_S = 30.0
_KEPT = 2
_SET_SCOPE: LiteralString = """
SELECT set_config('dragoman.tenant', $1, false), set_config('dragoman.platform', $2, false)"""


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose rows a statement may see; `platform` adds the list of tenants."""

    tenant: UUID | None = None
    platform: bool = False


NOBODY = Scope()


def scope_of(caller: Caller) -> Scope:
    """The rows that a caller may see."""
    return Scope(caller.tenant, caller.platform)


class Connection(asyncpg.Connection):
    """A connection that remembers its scope; None while it is being set."""

    scope: Scope | None = NOBODY

    async def enter(self, scope: Scope) -> None:
        """See what this scope may see, and nothing else."""
        self.scope = None
        await self.execute(_SET_SCOPE, str(scope.tenant or ""), "on" if scope.platform else "")
        self.scope = scope


class Pool:
    """At most `size` connections; those who find none free wait in line. What is not needed for a while is closed."""

    def __init__(
        self,
        url: str,
        *,
        role: str,
        size: int,
        wait_s: float,
        by_index: bool,
        lock_s: float | None,
        spare_s: float = _SPARE_S,
    ) -> None:
        self._url = url
        self._settings = {"role": role, "application_name": "dragoman"}
        if by_index:
            self._settings["enable_seqscan"] = "off"
        if lock_s is not None:
            limit = f"{round(lock_s * 1000)}ms"
            self._settings |= {"lock_timeout": limit, "idle_in_transaction_session_timeout": limit}
        self._size = size
        self._wait_s = wait_s
        self._open = 0
        self._idle: list[Connection] = []
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False
        self._spare_s = spare_s
        # The fewest that were idle at a time since the last look: so many were not needed.
        self._spare = 0
        self._look: asyncio.TimerHandle | None = None

    async def take(self, scope: Scope) -> Connection:
        """A connection in this scope, to be given back.

        Raises:
            PoolExhausted: all are in use and stay so.
        """
        connection = self._pick(scope) or await self._next()
        if connection.scope != scope:
            try:
                await connection.enter(scope)
            except BaseException:
                self.drop(connection)
                raise
        return connection

    def give(self, connection: Connection) -> None:
        """Back from a statement that ran to its end."""
        if connection.is_closed() or connection.is_in_transaction() or self._closed:
            self.drop(connection)
        elif (waiter := self._first_waiting()) is not None:
            waiter.set_result(connection)
        else:
            self._idle.append(connection)
            if self._look is None:
                self._look_later()

    def drop(self, connection: Connection) -> None:
        """Back from a statement that was cut short: PostgreSQL may still be busy with it, and is told to stop."""
        if connection.is_closed():
            self._release()
            return
        ending = asyncio.get_running_loop().create_task(self._end(connection))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Close those that are idle; the others are closed when they come back."""
        self._closed = True
        if self._look is not None:
            self._look.cancel()
        idle, self._idle = self._idle, []
        await asyncio.gather(*self._ending, *(_close(connection) for connection in idle))

    async def _end(self, connection: Connection) -> None:
        try:
            await _close(connection)
        finally:
            self._release()

    def _pick(self, scope: Scope) -> Connection | None:
        idle = self._idle
        for back in range(1, min(len(idle), _LOOK_THROUGH) + 1):
            if idle[-back].scope == scope and not idle[-back].is_closed():
                self._spare = min(self._spare, len(idle) - 1)
                return idle.pop(-back)
        while idle:
            connection = idle.pop()
            self._spare = min(self._spare, len(idle))
            if not connection.is_closed():
                return connection
            self._open -= 1
        return None

    def _look_later(self) -> None:
        self._spare = len(self._idle)
        self._look = asyncio.get_running_loop().call_later(self._spare_s, self._close_spare)

    def _close_spare(self) -> None:
        """Close what was not needed since the last look; those used longest ago are at the front."""
        self._look = None
        count = min(self._spare, len(self._idle) - _KEPT)
        if count > 0:
            spare, self._idle = self._idle[:count], self._idle[count:]
            for connection in spare:
                self.drop(connection)
        if len(self._idle) > _KEPT:
            self._look_later()

    async def _next(self) -> Connection:
        if self._open < self._size:
            self._open += 1
        elif (connection := await self._wait()) is not None:
            return connection
        return await self._connect()

    async def _wait(self) -> Connection | None:
        """What the first to be done hands over: its connection, or the right to open one in its place."""
        waiter: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(self._wait_s):
                return await waiter
        except BaseException as error:
            # It may have been handed over in the very moment in which we stopped waiting.
            if waiter.done() and not waiter.cancelled():
                if (late := waiter.result()) is not None:
                    self.give(late)
                else:
                    self._release()
            if isinstance(error, TimeoutError):
                raise PoolExhausted(size=self._size, waited_s=self._wait_s) from None
            raise

    async def _connect(self) -> Connection:
        try:
            return await self._open_one()
        except BaseException:
            self._release()
            raise

    async def _open_one(self) -> Connection:
        if self._closed:
            raise asyncpg.InterfaceError("the pool is closed")
        connection = await asyncpg.connect(
            self._url,
            timeout=10,
            command_timeout=30,
            connection_class=Connection,
            server_settings=self._settings,
        )
        try:
            for name in ("json", "jsonb"):
                await connection.set_type_codec(
                    name, encoder=lambda value: orjson.dumps(value).decode(), decoder=orjson.loads, schema="pg_catalog"
                )
        except BaseException:
            connection.terminate()
            raise
        return cast("Connection", connection)

    def _release(self) -> None:
        """One connection less: whoever waits longest may open another, and nobody can get in before them."""
        if (waiter := self._first_waiting()) is not None:
            waiter.set_result(None)
        else:
            self._open -= 1

    def _first_waiting(self) -> asyncio.Future[Connection | None] | None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                return waiter
        return None


async def _close(connection: Connection) -> None:
    """Hanging up alone would leave its statement running, with all its locks; the driver cancels it first."""
    try:
        await connection.close(timeout=2)
    except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
        connection.terminate()
