"""Something that may change: looked at when there was a nudge, and now and then in case one was lost."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final
from uuid import UUID

import orjson

from dragoman.doors.mcp.offer import Changes
from dragoman.errors import DragomanError, InvalidInput, NotFound

_UNKNOWN: Final = object()


def digest_of(seen: Any) -> str:
    """What can be kept of something, by anybody and for long, to know whether it has changed."""
    return blake2b(orjson.dumps(seen), digest_size=16).hexdigest()


def _never(seen: Any) -> bool:
    del seen
    return False


@dataclass(slots=True)
class Watch:
    """Tells what `look` gives whenever that is another than before, until it is `over`. A list has a `name`.

    `ids` are those whose nudges it heeds. With `at_first` it also tells how things stand to begin with. With `seen`,
    the digest of what was seen at another time, it begins by telling what has changed since.
    """

    look: Callable[[], Awaitable[Any]]
    tell: Callable[[Any], Awaitable[None]]
    ids: Sequence[UUID]
    every_s: float
    at_first: bool = False
    over: Callable[[Any], bool] = _never
    name: str = ""
    seen: str = ""
    _signal: asyncio.Event = field(default_factory=asyncio.Event)

    async def begin(self, changes: Changes, tenant: UUID, following: ExitStack) -> None:
        """See how things stand; nothing that happens after this is missed."""
        self._signal = following.enter_context(changes.follow(tenant, *self.ids))
        if not self.at_first and not self.seen:
            now = await self._look()
            self.seen = digest_of(now) if now is not _UNKNOWN else ""

    async def run(self) -> None:
        """Tell of changes until it is over."""
        while True:
            self._signal.clear()
            now = await self._look()
            if now is not _UNKNOWN:
                await self._compare(now)
                if self.over(now):
                    return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._signal.wait(), self.every_s)

    async def _compare(self, now: Any) -> None:
        digest = digest_of(now)
        if digest != self.seen:
            self.seen = digest
            await self.tell(now)

    async def _look(self) -> Any:
        try:
            return await self.look()
        except (NotFound, InvalidInput):
            return None
        except DragomanError:  # what cannot be looked at now has not changed, as far as anybody knows
            return _UNKNOWN
