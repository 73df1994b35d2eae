"""How many messages are under way at once: a share for each tenant, so that slow receivers hold up nobody else's."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Final
from uuid import UUID

_AT_ONCE: Final = 64
_AT_ONCE_OF_TENANT: Final = 16


class Slots:
    """The deliveries of one process that are under way."""

    def __init__(self, *, at_once: int = _AT_ONCE, of_tenant: int = _AT_ONCE_OF_TENANT) -> None:
        self._at_once = at_once
        self._most_of_tenant = of_tenant
        self._running: set[asyncio.Task[None]] = set()
        self._of_tenant: Counter[UUID] = Counter()

    @property
    def room(self) -> int:
        """How many may be claimed now: no more than one tenant may have."""
        return min(self._at_once - len(self._running), self._most_of_tenant)

    def busy(self) -> list[UUID]:
        """Return the tenants of which no more may be claimed."""
        return [tenant for tenant, count in self._of_tenant.items() if count >= self._most_of_tenant]

    def start(self, tenant: UUID, work: Coroutine[None, None, None], ended: Callable[[], None]) -> None:
        """Begin a delivery of a tenant, and call back when it is over."""
        self._of_tenant[tenant] += 1
        task = asyncio.create_task(work)
        self._running.add(task)

        def over(done: asyncio.Task[None]) -> None:
            self._running.discard(done)
            self._of_tenant[tenant] -= 1
            if not self._of_tenant[tenant]:
                del self._of_tenant[tenant]
            ended()

        task.add_done_callback(over)

    async def stop(self) -> None:
        """Stop all that is under way."""
        for delivery in self._running:
            delivery.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
