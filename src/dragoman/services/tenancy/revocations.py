"""Taking credentials back: written to PostgreSQL with the operation, spread to every process right after it commits."""

from datetime import UTC, datetime
from typing import Protocol
from uuid import UUID

from dragoman.context import Caller
from dragoman.infra.db import Database, scope_of
from dragoman.services.tenancy.store import TenancyStore

FOREVER = datetime.max.replace(tzinfo=UTC)


class Spreader(Protocol):
    """Makes a revocation known everywhere at once."""

    async def revoke(self, tenant: UUID, ref: str, *, not_before: float) -> None:
        """From now on."""
        ...

    async def readmit(self, tenant: UUID, ref: str, *, not_before: float) -> None:
        """From then on only what is older is refused."""
        ...

    async def unrevoke(self, tenant: UUID, ref: str) -> None:
        """No longer."""
        ...


class Revocations:
    """`cred:<id>` is one credential, `user:<subject>` all of a principal's, `tenant` all of a tenant's.

    An entry stays until it is lifted: an API key need not end, so there is no day after which it may be forgotten.
    """

    def __init__(self, store: TenancyStore, db: Database, spreader: Spreader) -> None:
        self._store = store
        self._db = db
        self._spreader = spreader

    async def revoke(
        self,
        caller: Caller,
        tenant: UUID,
        ref: str,
        *,
        reason: str,
        until_now: bool = False,
    ) -> None:
        """Refuse what `ref` names: for good, or only what was issued until now."""
        not_before = datetime.now(UTC) if until_now else FOREVER
        await self._store.revoke(scope_of(caller), tenant, ref, not_before=not_before, reason=reason)

        async def spread() -> None:
            seconds = not_before.timestamp() if until_now else float("inf")
            await self._spreader.revoke(tenant, ref, not_before=seconds)

        await self._db.after_commit(spread)

    async def readmit(self, caller: Caller, tenant: UUID, ref: str) -> None:
        """Let a principal in again with credentials issued from now on.

        Simply forgetting the entry would bring older tokens back to life, those of an earlier role among them.
        """
        now = datetime.now(UTC)
        if not await self._store.readmit(scope_of(caller), tenant, ref, not_before=now):
            return

        async def spread() -> None:
            await self._spreader.readmit(tenant, ref, not_before=now.timestamp())

        await self._db.after_commit(spread)

    async def restore(self, caller: Caller, tenant: UUID, ref: str) -> None:
        """Let it in again."""
        await self._store.unrevoke(scope_of(caller), tenant, ref)

        async def spread() -> None:
            await self._spreader.unrevoke(tenant, ref)

        await self._db.after_commit(spread)
