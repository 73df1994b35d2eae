"""Repositories whose tenants are gone: they leave the disk, whichever server deleted the tenant."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final
from uuid import UUID

import structlog

from dragoman.services.knowledge.repositories import Repositories

_LOG = structlog.get_logger(__name__)
# This server is woken by its own deletions; this is for those of others, and for what a crash left.
_EVERY_S: Final = 3_600.0


class Leftovers:
    """Removes them; `run` works until it is cancelled."""

    def __init__(
        self, repositories: Repositories, deleted_among: Callable[[Sequence[UUID]], Awaitable[set[UUID]]]
    ) -> None:
        self._repositories = repositories
        self._deleted_among = deleted_among
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """A tenant was deleted."""
        self._woken.set()

    async def run(self) -> None:
        """Look at once, whenever it is woken, and now and then."""
        while True:
            try:
                await self.sweep()
            except Exception:  # noqa: BLE001 - a worker loop: the next look may succeed
                _LOG.exception("knowledge.leftovers_not_removed")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), _EVERY_S)
            self._woken.clear()

    async def sweep(self) -> None:
        """Remove the repository of every tenant that was deleted."""
        there = await asyncio.to_thread(self._repositories.list)
        for tenant in await self._deleted_among(there) if there else ():
            await asyncio.to_thread(self._repositories.remove, tenant)
            _LOG.info("knowledge.repository_removed", tenant_id=str(tenant))
