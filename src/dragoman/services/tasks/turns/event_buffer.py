"""Events of an attempt, collected for a moment: many small pieces are one write, in their order."""

import asyncio
from collections.abc import Awaitable, Callable

import orjson
import structlog

from dragoman import kit
from dragoman.errors import DragomanError
from dragoman.services.tasks.events import Event, Loggable, encoded

_LOG = structlog.get_logger(__name__)
_LINGER_S = 0.05
# A run that tells faster than the database takes it waits: what it has told is never more than this in memory.
_MOST = 500
_MOST_BYTES = 1_048_576


class EventBuffer:
    """Holds events until they are written. Those that a write could not take are held on, for the next one."""

    def __init__(self, write: Callable[[list[Loggable]], Awaitable[None]]) -> None:
        self._write = write
        self._events: list[Loggable] = []
        self._bytes = 0
        self._writing = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._late: asyncio.Task[None] | None = None
        self._closed = False

    def hold(self, event: Event) -> None:
        """Keep it for whatever is written next."""
        body = encoded(event)
        self._events.append(orjson.Fragment(body))
        self._bytes += len(body)

    async def linger(self) -> None:
        """Have what is held written in a moment; at once when it is much."""
        if len(self._events) >= _MOST or self._bytes >= _MOST_BYTES:
            await self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LINGER_S, self._begin_flush)

    async def flush(self) -> None:
        """Write what is held."""
        async with self._writing:
            if self._closed:
                return  # what is held is written with the end of the turn
            events, size = self._take_held()
            if not events:
                return
            try:
                await self._write(events)
            except DragomanError:
                self._events = [*events, *self._events]
                self._bytes += size
                raise

    async def take(self) -> list[Loggable]:
        """Return and clear what is held, to be written along with something else; a write under way is awaited."""
        if not self._events and not self._writing.locked():
            return []
        async with self._writing:
            return self._take_held()[0]

    def close(self) -> None:
        """Begin no further write; one under way goes on. What is held is for `take`."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        # The run holds this, and must not be held by it: every task would wait for the collector.
        self._write = _discard

    def _take_held(self) -> tuple[list[Loggable], int]:
        held = self._events, self._bytes
        self._events, self._bytes = [], 0
        return held

    def _begin_flush(self) -> None:
        self._timer = None
        self._late = asyncio.create_task(self._flush_late())

    async def _flush_late(self) -> None:
        try:
            await self.flush()
        except DragomanError as error:
            _LOG.warning("turns.events_held", reason=error.message)
        except kit.AttemptFenced:
            pass  # the attempt hears of it itself


async def _discard(events: list[Loggable]) -> None:
    """Discard events that are reported after the attempt has ended."""
