"""Signals between processes, by LISTEN and NOTIFY, on two connections of their own.

NOTIFY takes a lock on the whole database until its transaction is flushed. So it is never part of a transaction that
writes: it is sent afterwards, without waiting for the disk, many names in one message, at most 200 messages a second.
"""
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# The driver has no types.

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import asyncpg

from dragoman.errors import UpstreamUnavailable
from dragoman.infra.db.failures import translating
from dragoman.infra.jobs import Job

_MOST_BYTES = 7_900
_BETWEEN_S = 0.005
_CONNECT_S = 10
# A half-open connection takes statements and never answers. Without a limit the job would wait for TCP to notice.
_COMMAND_TIMEOUT_S = 5.0
# How often the receiving connection is checked: one that only listens never notices that it is half-open.
_CHECK_S = 5.0
_PRESENCE_RETRY_S = 1.0
# Presence: an advisory lock that lives as long as the receiving connection. While it is held, others believe that this
# process may still act on what it began, although it does not answer. While it is not held:
#
# - The process may be alive: its connection was lost, or the lock is not acquired yet. It goes on working, so a missing
#   lock proves nothing by itself. The lease bounds the work: the process renews it on other connections, and stops when
#   it cannot. So others may rely on a missing lock only when the lease is over as well; `INTEND` in
#   services/tasks/engine/store_effects.py does.
# - A backend of an earlier, half-open connection of this process may have the lock. That tells others the truth, so the
#   new connection need not have it now. It tries again and does not block: a blocked connection hears nothing.
PRESENCE = "SELECT pg_try_advisory_lock(hashtextextended($1, 0))"


class Signals:
    """Sends and receives on one channel. A message may be lost with a connection: receivers also look by themselves.

    With `present`, the receiving connection also holds the lock of that name, as soon as it can be had.
    """

    def __init__(
        self,
        url: str,
        channel: str,
        *,
        present: str | None = None,
        command_timeout_s: float = _COMMAND_TIMEOUT_S,
        check_s: float = _CHECK_S,
    ) -> None:
        self._url = url
        self._channel = channel
        self._present = present
        self._command_timeout_s = command_timeout_s
        self._check_s = check_s
        self._own_pid: int | None = None

    def jobs(
        self,
        take: Callable[[], Awaitable[Iterable[str]]],
        heard: Callable[[Iterable[str]], None],
        missed: Callable[[], None],
    ) -> Sequence[Job]:
        """Return the jobs that send the names which `take` returns, and pass those that others send to `heard`.

        `missed` is called when something may have been lost.
        """
        return [
            Job(name="signals_send", work=partial(self._send, take)),
            Job(name="signals_receive", work=partial(self._receive, heard, missed)),
        ]

    async def _send(self, take: Callable[[], Awaitable[Iterable[str]]]) -> None:
        async with self._connection(synchronous_commit="off") as connection:
            self._own_pid = connection.get_server_pid()
            while True:
                names = await take()
                with translating():
                    for message in _packed(names):
                        await connection.execute("SELECT pg_notify($1, $2)", self._channel, message)
                await asyncio.sleep(_BETWEEN_S)

    async def _receive(self, heard: Callable[[Iterable[str]], None], missed: Callable[[], None]) -> None:
        async with self._connection() as connection:
            lost = asyncio.Event()
            connection.add_termination_listener(lambda _: lost.set())
            with translating():
                await connection.add_listener(self._channel, partial(self._pass_on, heard))
                missed()
                await self._watch(connection, lost)
        raise UpstreamUnavailable("postgresql", retry_after_s=2)

    def _pass_on(self, heard: Callable[[Iterable[str]], None], _: Any, pid: int, __: str, message: str) -> None:
        if pid != self._own_pid:  # what this process says, it knows
            heard(message.split(" "))

    async def _watch(self, connection: Any, lost: asyncio.Event) -> None:
        """Acquire presence and check the connection now and then; return when it is lost."""
        present = self._present is None
        while not lost.is_set():
            if present:
                await connection.execute("SELECT 1")
            else:
                present = await connection.fetchval(PRESENCE, self._present)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._check_s if present else _PRESENCE_RETRY_S):
                    await lost.wait()

    @asynccontextmanager
    async def _connection(self, **settings: str) -> AsyncGenerator[Any]:
        with translating():
            connection = await asyncpg.connect(
                self._url,
                timeout=_CONNECT_S,
                command_timeout=self._command_timeout_s,
                server_settings=settings,
            )
        try:
            yield connection
        finally:
            connection.terminate()


def _packed(names: Iterable[str]) -> Iterable[str]:
    line = ""
    for name in names:
        if len(line) + len(name) + 1 > _MOST_BYTES:
            yield line
            line = ""
        line = f"{line} {name}" if line else name
    if line:
        yield line
