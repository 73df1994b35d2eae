"""Directories of repositories: those of deleted tenants leave the disk, those of an earlier release become rows."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from uuid import UUID

import structlog

from dragoman.infra.jobs import Job
from dragoman.services.knowledge.repositories import Repositories

_LOG = structlog.get_logger(__name__)
# This server is woken by its own deletions; this is for those of others, and for what a crash left.
_EVERY_S: Final = 3_600.0


class Leftovers:
    """Looks after them in the background."""

    def __init__(
        self, repositories: Repositories, deleted_among: Callable[[Sequence[UUID]], Awaitable[set[UUID]]]
    ) -> None:
        self._repositories = repositories
        self._deleted_among = deleted_among
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """A tenant was deleted."""
        self._woken.set()

    @property
    def job(self) -> Job:
        """Return the job that looks at once, whenever it is woken, and now and then."""
        return Job(name="knowledge_leftovers", work=self.sweep, every_s=_EVERY_S, wake=self._woken)

    async def sweep(self) -> None:
        """Remove the directory of every tenant that was deleted, and take the others over into the rows."""
        there = await self._repositories.list()
        deleted = await self._deleted_among(there) if there else set[UUID]()
        for tenant in deleted:
            await self._repositories.remove(tenant)
            _LOG.info("knowledge.repository_removed", tenant_id=str(tenant))
        await self._repositories.take_over(tenant for tenant in there if tenant not in deleted)
