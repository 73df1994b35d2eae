"""Rules of API keys: random, shown once, never more than their maker, replaceable without a gap."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import InvalidInput, NotFound
from dragoman.infra.auth.secrets import hash_secret, new_api_key
from dragoman.infra.db import scope_of
from dragoman.operations import Page, page
from dragoman.services.tenancy.errors import ScopeTooWide, WrongState
from dragoman.services.tenancy.models import CreateKey, Key, KeyRef, ListKeys, NewKey, RotateKey
from dragoman.services.tenancy.revocations import Revocations
from dragoman.services.tenancy.store import TenancyStore
from dragoman.services.tenancy.users import check_role


class KeyService:
    """Keeps the keys of a tenant's programs."""

    def __init__(
        self, store: TenancyStore, revocations: Revocations, *, pepper: bytes, new_id: Callable[[], UUID]
    ) -> None:
        self._store = store
        self._revocations = revocations
        self._pepper = pepper
        self._new_id = new_id

    async def create(self, caller: Caller, new: CreateKey) -> NewKey:
        """Make a key; its secret is in the answer and nowhere else.

        Raises:
            RoleTooHigh: the role is more than the caller has.
            ScopeTooWide: the caller's own credential is narrower.
        """
        check_role(caller, new.role)
        _check_scopes(caller, new.scopes)
        if new.expires_at is not None and new.expires_at <= datetime.now(UTC):
            raise InvalidInput.of("expires_at", "must be in the future")
        return await self._add(caller, new)

    async def list(self, caller: Caller, wanted: ListKeys) -> Page[Key]:
        """The caller's tenant's keys, newest first."""
        rows = await self._store.list_keys(
            scope_of(caller), wanted.limit + 1, wanted.cursor, revoked=wanted.include_revoked
        )
        return page([Key.model_validate(row) for row in rows], wanted.limit)

    async def get(self, caller: Caller, ref: KeyRef) -> Key:
        """One key.

        Raises:
            NotFound: there is none, or it belongs to another tenant.
        """
        row = await self._store.find_key(scope_of(caller), ref.key_id)
        if row is None:
            raise NotFound("key", ref.key_id)
        return Key.model_validate(row)

    async def rotate(self, caller: Caller, given: RotateKey) -> NewKey:
        """Make a fresh key with the same rights; the old one ends now, or after the grace.

        Raises:
            RoleTooHigh: the key's role is more than the caller has.
            ScopeTooWide: the caller's own credential is narrower than the key.
            WrongState: the key is revoked, expired or replaced already.
        """
        old = await self.get(caller, given)
        check_role(caller, old.role)
        _check_scopes(caller, old.scopes)
        if (state := _ended(old)) is not None:
            raise WrongState("key", state, "a live one")
        fresh = await self._add(
            caller,
            CreateKey(
                name=old.name,
                subject=old.subject,
                principal_type=old.principal_type,
                role=old.role,
                scopes=old.scopes,
                expires_at=old.expires_at,
            ),
        )
        now = datetime.now(UTC)
        ends = now + timedelta(seconds=given.grace_s)
        if old.expires_at is not None:
            ends = min(ends, old.expires_at)
        await self._end(
            caller, old.id, revoked_at=None if given.grace_s else now, expires_at=ends, replaced_by=fresh.id
        )
        return fresh

    async def revoke(self, caller: Caller, ref: KeyRef) -> Key:
        """End a key at once."""
        old = await self.get(caller, ref)
        check_role(caller, old.role)
        if old.revoked_at is not None:
            raise WrongState("key", "revoked", "a live one")
        return await self._end(caller, old.id, revoked_at=datetime.now(UTC), expires_at=old.expires_at)

    async def _add(self, caller: Caller, new: CreateKey) -> NewKey:
        key = new_api_key(self._new_id())
        row = await self._store.add_key(
            scope_of(caller),
            key.id,
            new.name,
            new.subject or f"key:{new.name}",
            new.principal_type.value,
            new.role.value,
            new.scopes,
            hash_secret(key.secret, self._pepper),
            f"{key.text[:10]}...{key.text[-4:]}",
            caller.subject,
            new.expires_at,
        )
        return NewKey.model_validate({**row, "secret": key.text})

    async def _end(
        self,
        caller: Caller,
        key_id: UUID,
        *,
        revoked_at: datetime | None,
        expires_at: datetime | None,
        replaced_by: UUID | None = None,
    ) -> Key:
        row = await self._store.end_key(
            scope_of(caller), key_id, revoked_at=revoked_at, expires_at=expires_at, replaced_by=replaced_by
        )
        if row is None:
            raise WrongState("key", "revoked", "a live one")
        if revoked_at is not None:
            await self._revocations.revoke(caller, caller.tenant, f"cred:{key_id}", reason="key revoked")
        return Key.model_validate(row)


def _check_scopes(caller: Caller, scopes: Sequence[str] | None) -> None:
    if caller.scopes is not None and (scopes is None or not set(scopes) <= caller.scopes):
        raise ScopeTooWide(sorted(caller.scopes))


def _ended(key: Key) -> str | None:
    if key.revoked_at is not None:
        return "revoked"
    if key.replaced_by is not None:
        return "replaced"
    return "expired" if key.expires_at is not None and key.expires_at <= datetime.now(UTC) else None
