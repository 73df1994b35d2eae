"""Something that may change: looked at when there was a nudge, and now and then in case one was lost."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from dragoman.doors.mcp.offer import Changes
from dragoman.errors import DragomanError, InvalidInput, NotFound

_NEVER_SEEN: Final = object()


def _never(seen: Any) -> bool:
    del seen
    return False


@dataclass(slots=True)
class Watch:
    """Tells what `look` gives whenever that is another than before, until it is `over`. A list has a `name`.

    `ids` are those whose nudges it heeds. With `at_first` it also tells how things stand to begin with.
    """

    look: Callable[[], Awaitable[Any]]
    tell: Callable[[Any], Awaitable[None]]
    ids: Sequence[UUID]
    every_s: float
    at_first: bool = False
    over: Callable[[Any], bool] = _never
    name: str = ""
    _seen: Any = _NEVER_SEEN
    _signal: asyncio.Event = field(default_factory=asyncio.Event)

    async def begin(self, changes: Changes, tenant: UUID, following: ExitStack) -> None:
        """See how things stand; nothing that happens after this is missed."""
        self._signal = following.enter_context(changes.follow(tenant, *self.ids))
        if not self.at_first:
            self._seen = await self._look()

    async def run(self) -> None:
        """Tell of changes until it is over."""
        while True:
            self._signal.clear()
            now = await self._look()
            if now != self._seen:
                self._seen = now
                await self.tell(now)
            if self.over(now):
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._signal.wait(), self.every_s)

    async def _look(self) -> Any:
        try:
            return await self.look()
        except (NotFound, InvalidInput):
            return None
        except DragomanError:  # what cannot be looked at now has not changed, as far as anybody knows
            return self._seen
