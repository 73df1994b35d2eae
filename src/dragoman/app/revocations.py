"""Puts together what spreads revocations and what removes those that can void nothing any more."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from dragoman.infra.config import Settings
from dragoman.infra.db import Database
from dragoman.infra.limits import Limiter, Revocation
from dragoman.services.tenancy.retention import Retention
from dragoman.services.tenancy.store import Directory
from dragoman.services.tenancy.store_retention import RetentionStore

_PAGE: Final = 2_000


class RevocationCopies:
    """Between what PostgreSQL keeps and what Valkey spreads."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self.limiter: Limiter | None = None

    async def load(self, partition: str) -> AsyncIterator[Sequence[Revocation]]:
        """Everything of a tenant that is refused now, page by page."""
        tenant, after = UUID(partition), ""
        while page := await self._directory.list_revocations(tenant, after=after, limit=_PAGE):
            yield [Revocation(partition, ref, not_before) for ref, not_before in page]
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    async def revoke(self, tenant: UUID, ref: str, *, not_before: float) -> None:
        """Make it known."""
        if self.limiter is not None:
            await self.limiter.revoke(Revocation(str(tenant), ref, not_before))

    async def readmit(self, tenant: UUID, ref: str, *, not_before: float) -> None:
        """Make it known."""
        if self.limiter is not None:
            await self.limiter.readmit(Revocation(str(tenant), ref, not_before))

    async def unrevoke(self, tenant: UUID, ref: str) -> None:
        """Make it known."""
        if self.limiter is not None:
            await self.limiter.unrevoke(str(tenant), ref)


def build_retention(settings: Settings, core_db: Database) -> Retention:
    """Build the job that removes old idempotency keys and revocations."""
    return Retention(
        RetentionStore(core_db),
        every_s=settings.threads.cleanup_s,
        keep_keys=timedelta(seconds=settings.idempotency_s),
        keep_tokens=timedelta(seconds=settings.token_max_age_s),
    )
