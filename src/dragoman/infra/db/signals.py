"""Nudges between processes, by LISTEN and NOTIFY, on two connections of their own.

NOTIFY takes a lock on the whole database until its transaction is flushed. So it is never part of a transaction that
writes: it follows, not waited for on disk, many names in one message, at most 200 messages a second.
"""
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# The driver has no types.

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import asyncpg

from dragoman.errors import UpstreamUnavailable
from dragoman.infra.db.failures import translating
from dragoman.infra.jobs import Job

_MOST_BYTES = 7_900
_BETWEEN_S = 0.005
# A lock that lives as long as the connection does: others see by it whether the process may still be there.
PRESENCE = "SELECT pg_advisory_lock(hashtextextended($1, 0))"


class Signals:
    """One channel. What is sent may be lost while a connection is: receivers look for themselves now and then.

    With `present` the receiving connection also holds a lock of that name, for as long as it lives.
    """

    def __init__(self, url: str, channel: str, *, present: str | None = None) -> None:
        self._url = url
        self._channel = channel
        self._present = present

    def jobs(
        self,
        take: Callable[[], Awaitable[Iterable[str]]],
        heard: Callable[[Iterable[str]], None],
        missed: Callable[[], None],
    ) -> Sequence[Job]:
        """Return the jobs that send whatever `take` gives, and pass on to `heard` what others send.

        `missed` is called when something may have been lost.
        """
        return [
            Job(name="signals_send", work=partial(self._send, take)),
            Job(name="signals_receive", work=partial(self._receive, heard, missed)),
        ]

    async def _send(self, take: Callable[[], Awaitable[Iterable[str]]]) -> None:
        async with self._connection(synchronous_commit="off") as connection:
            while True:
                names = await take()
                with translating():
                    for message in _packed(names):
                        await connection.execute("SELECT pg_notify($1, $2)", self._channel, message)
                await asyncio.sleep(_BETWEEN_S)

    async def _receive(self, heard: Callable[[Iterable[str]], None], missed: Callable[[], None]) -> None:
        async with self._connection() as connection:
            ended = asyncio.Event()
            connection.add_termination_listener(lambda _: ended.set())
            with translating():
                if self._present is not None:
                    await connection.execute(PRESENCE, self._present)
                await connection.add_listener(self._channel, lambda *args: heard(str(args[-1]).split(" ")))
            missed()
            await ended.wait()
        raise UpstreamUnavailable("postgresql", retry_after_s=2)

    @asynccontextmanager
    async def _connection(self, **settings: str) -> AsyncGenerator[Any]:
        with translating():
            connection = await asyncpg.connect(self._url, server_settings=settings)
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
