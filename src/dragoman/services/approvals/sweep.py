"""What changes by itself: approvals expire, go stale when a policy moves on, and nobody waits for what is decided."""

from collections.abc import Sequence
from uuid import UUID

from dragoman.errors import UpstreamUnavailable
from dragoman.infra.jobs import Job
from dragoman.services.approvals.errors import RESOURCE_MOVED
from dragoman.services.approvals.outcomes import Outcomes
from dragoman.services.approvals.requirements import moved
from dragoman.services.approvals.store import SweepStore
from dragoman.services.governance.ports import Policies, PolicyBook

_BEFORE_ALL = UUID(int=0)


class Sweep:
    """Every process has one; what one of them ends, the others find ended. Whoever waits is told after the commit."""

    def __init__(self, store: SweepStore, policies: Policies, outcomes: Outcomes, *, every_s: float = 1.0) -> None:
        self._store = store
        self._policies = policies
        self._outcomes = outcomes
        self._every_s = every_s
        self._seen: dict[UUID, PolicyBook] = {}

    @property
    def job(self) -> Job:
        """Return the job that sweeps now and then."""
        return Job(name="approval_sweep", work=self._sweep, every_s=self._every_s)

    async def _sweep(self) -> None:
        await self.expire()
        await self.spoil()
        await self.remind()

    async def expire(self) -> None:
        """End those whose time is over."""
        while ended := await self._store.expire():
            for tenant, approval_id in ended:
                await self._outcomes.announce(tenant, approval_id)

    async def spoil(self) -> None:
        """End those whose policies have moved; a tenant whose policies have not since the last look is passed over."""
        holders = await self._store.holders()
        self._seen = {tenant: book for tenant, book in self._seen.items() if tenant in holders}
        for tenant in holders:
            try:
                book = await self._policies.in_force(tenant)
            except UpstreamUnavailable:  # it is logged; what asks for these approvals is refused meanwhile
                continue
            if self._seen.get(tenant) is not book:
                await self._spoil_of(tenant, book)
                self._seen[tenant] = book

    async def spoil_moved(self, tenant: UUID, approval_ids: Sequence[UUID], because: str) -> None:
        """End those of the approvals that are open: their resource has moved."""
        for row in await self._store.open_among(tenant, approval_ids):
            if await self._store.spoil(tenant, row, f"{RESOURCE_MOVED}: {because}"[:500]):
                await self._outcomes.announce(tenant, row["id"])

    async def remind(self) -> None:
        """Tell again of those that are decided and still waited for."""
        for tenant, approval_id in await self._store.forgotten():
            await self._outcomes.announce(tenant, approval_id)

    async def _spoil_of(self, tenant: UUID, book: PolicyBook) -> None:
        after = _BEFORE_ALL
        while batch := await self._store.open_ones(tenant, after):
            for row in batch:
                gone = moved(book, row["action"], {one["id"]: one["version"] for one in row["policies"]})
                if gone and await self._store.spoil(tenant, row, f"policies moved: {', '.join(gone)}"):
                    await self._outcomes.announce(tenant, row["id"])
            after = batch[-1]["id"]
