"""Taking credentials back: written to PostgreSQL with the operation, spread to every process right after it commits."""

from datetime import UTC, datetime
from typing import Final, Protocol
from uuid import UUID

from dragoman.context import Caller, Role
from dragoman.infra.db import Database, scope_of
from dragoman.infra.limits import PLATFORM
from dragoman.services.tenancy.errors import TooManyRevocations
from dragoman.services.tenancy.store import TenancyStore

FOREVER = datetime.max.replace(tzinfo=UTC)
# Of ids and names that a caller makes up there is no end.
_MOST: Final = {"cred:": 10_000, "user:": 100_000}


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

    An entry is removed when the tokens that it voids have expired (`retention`). An API key may live for ever, so that
    those it voids are marked as revoked in their own rows. Of a principal or a tenant that is shut out for good the
    entry stays.

    Tokens of a super_admin are voided by entries of super_admins alone: whoever invites a user of the same subject, or
    reads the id of a token in the audit trail, shuts no super_admin out. Theirs are written twice, see `PLATFORM`.
    """

    def __init__(self, store: TenancyStore, db: Database, spreader: Spreader) -> None:
        self._store = store
        self._db = db
        self._spreader = spreader

    async def check_room(self, caller: Caller, ref: str) -> None:
        """Refuse one more entry of a kind of which the tenant has too many; keys and people can always be shut out.

        Raises:
            TooManyRevocations: the tenant has as many as it may.
        """
        kind, most = next((kind, most) for kind, most in _MOST.items() if ref.startswith(kind))
        listed = await self._store.count_revocations(scope_of(caller), caller.tenant, kind, ref, most=most)
        if listed >= most:
            raise TooManyRevocations(most)

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
        refs = _refs(caller, ref)
        await self._store.end_keys(scope_of(caller), tenant, ref, not_before=not_before)
        for each in refs:
            await self._store.revoke(scope_of(caller), tenant, each, not_before=not_before, reason=reason)

        async def spread() -> None:
            seconds = not_before.timestamp() if until_now else float("inf")
            for each in refs:
                await self._spreader.revoke(tenant, each, not_before=seconds)

        await self._db.after_commit(spread)

    async def readmit(self, caller: Caller, tenant: UUID, ref: str) -> None:
        """Let a principal in again with credentials issued from now on.

        Simply forgetting the entry would bring older tokens back to life, those of an earlier role among them.
        """
        now = datetime.now(UTC)
        listed = [
            each
            for each in _refs(caller, ref)
            if await self._store.readmit(scope_of(caller), tenant, each, not_before=now)
        ]

        async def spread() -> None:
            for each in listed:
                await self._spreader.readmit(tenant, each, not_before=now.timestamp())

        if listed:
            await self._db.after_commit(spread)

    async def restore(self, caller: Caller, tenant: UUID, ref: str) -> None:
        """Let it in again."""
        await self._store.unrevoke(scope_of(caller), tenant, ref)

        async def spread() -> None:
            await self._spreader.unrevoke(tenant, ref)

        await self._db.after_commit(spread)


def _refs(caller: Caller, ref: str) -> tuple[str, ...]:
    """Return the entries that a caller writes for a ref."""
    both = Role.SUPER_ADMIN in caller.roles and ref != "tenant"
    return (ref, PLATFORM + ref) if both else (ref,)
