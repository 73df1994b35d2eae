"""Nudges between processes, by LISTEN and NOTIFY, on two connections of their own.

NOTIFY takes a lock on the whole database until its transaction is flushed. So it is never part of a transaction that
writes: it follows, not waited for on disk, many names in one message, at most 200 messages a second.
"""
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# The driver has no types.

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import asyncpg
import structlog

_LOG = structlog.get_logger(__name__)
_MOST_BYTES = 7_900
_BETWEEN_S = 0.005
_RETRY_S = 1.0
_LOST = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)


class Signals:
    """One channel. What is sent may be lost while a connection is: receivers look for themselves now and then."""

    def __init__(self, url: str, channel: str) -> None:
        self._url = url
        self._channel = channel

    async def send(self, take: Callable[[], Awaitable[Iterable[str]]]) -> None:
        """Send whatever `take` gives, until cancelled."""
        while True:
            try:
                connection = await asyncpg.connect(self._url, server_settings={"synchronous_commit": "off"})
                try:
                    while True:
                        for message in _packed(await take()):
                            await connection.execute("SELECT pg_notify($1, $2)", self._channel, message)
                        await asyncio.sleep(_BETWEEN_S)
                finally:
                    connection.terminate()
            except _LOST as error:
                _LOG.warning("signals.not_sent", reason=type(error).__name__)
                await asyncio.sleep(_RETRY_S)

    async def receive(self, heard: Callable[[Iterable[str]], None], missed: Callable[[], None]) -> None:
        """Pass on what others send, until cancelled; `missed` is called when something may have been lost."""
        while True:
            try:
                connection = await asyncpg.connect(self._url)
                ended = asyncio.Event()
                connection.add_termination_listener(lambda _, ended=ended: ended.set())
                await connection.add_listener(self._channel, lambda *args: heard(str(args[-1]).split(" ")))
                missed()
                await ended.wait()
            except _LOST as error:
                _LOG.warning("signals.not_received", reason=type(error).__name__)
            await asyncio.sleep(_RETRY_S)


def _packed(names: Iterable[str]) -> Iterable[str]:
    line = ""
    for name in names:
        if len(line) + len(name) + 1 > _MOST_BYTES:
            yield line
            line = ""
        line = f"{line} {name}" if line else name
    if line:
        yield line
