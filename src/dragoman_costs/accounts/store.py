"""The SQL of cloud accounts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, LiteralString
from uuid import UUID

from dragoman.errors import Conflict
from dragoman.infra.db import Database, Scope, UniqueViolated

Record = dict[str, Any]
_ACCOUNT: LiteralString = """
id, provider, identifier, name, status, config, credential_kind, credential_ref, credential_status, synthetic,
last_sync_at, last_error, version, created_by, created_at, updated_at"""
_SEALED: LiteralString = f"{_ACCOUNT}, credential_sealed"
ADD: LiteralString = f"""
INSERT INTO cost_accounts (tenant_id, id, provider, identifier, name, status, config, credential_kind, credential_ref,
    credential_sealed, credential_status, synthetic, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) RETURNING {_ACCOUNT}"""
FIND: LiteralString = f"SELECT {_SEALED} FROM cost_accounts WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL"
LIST: LiteralString = f"""
SELECT {_ACCOUNT} FROM cost_accounts
WHERE tenant_id = $1 AND deleted_at IS NULL AND ($3::uuid IS NULL OR id < $3)
    AND ($4::text IS NULL OR provider = $4) AND ($5::text IS NULL OR status = $5)
ORDER BY id DESC LIMIT $2"""
CHANGE: LiteralString = f"""
UPDATE cost_accounts SET name = $3, status = $4, config = $5, credential_kind = $6, credential_ref = $7,
    credential_sealed = $8, credential_status = $9, last_error = $10, version = version + 1, updated_at = now()
WHERE tenant_id = $1 AND id = $2 AND version = $11 AND deleted_at IS NULL RETURNING {_ACCOUNT}"""
# What people did not change is no version of it: a sync in the night must not make their ETag stale.
NOTE: LiteralString = f"""
UPDATE cost_accounts SET status = $4, credential_status = $5, last_error = $6,
    last_sync_at = CASE WHEN $7 THEN now() ELSE last_sync_at END
WHERE tenant_id = $1 AND id = $2 AND version = $3 AND deleted_at IS NULL RETURNING {_ACCOUNT}"""
# The slices first: who shows one locks it before its account.
HIDE_SLICES: LiteralString = """
UPDATE cost_slices SET state = 'replaced' WHERE tenant_id = $1 AND account_id = $2 AND state <> 'replaced'"""
DELETE: LiteralString = """
UPDATE cost_accounts SET deleted_at = now(), credential_kind = 'none', credential_ref = NULL, credential_sealed = NULL,
    credential_status = 'missing', status = 'disconnected', version = version + 1, updated_at = now()
WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL"""


@dataclass(frozen=True, slots=True)
class KeptCredential:
    """What is kept of a credential: a reference, or the secret, sealed."""

    kind: str
    reference: str | None = None
    sealed: bytes | None = field(default=None, repr=False)
    status: str = "unverified"


NO_CREDENTIAL = KeptCredential("none", status="missing")


@dataclass(frozen=True, slots=True)
class NewAccount:
    """An account to add."""

    id: UUID
    provider: str
    identifier: str
    name: str
    status: str
    created_by: str
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    credential: KeptCredential = NO_CREDENTIAL
    synthetic: bool = False


@dataclass(frozen=True, slots=True)
class ChangedAccount:
    """An account after a change; `version` is the one that was read."""

    name: str
    status: str
    config: Mapping[str, Any]
    credential: KeptCredential
    last_error: str | None
    version: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is noted with an account after its exports were asked for."""

    status: str
    credential_status: str
    last_error: str | None


class AccountTaken(Conflict):
    """The tenant has this account already."""

    def __init__(self, provider: str, identifier: str) -> None:
        super().__init__(
            f"the {provider} account {identifier!r} is registered already: update it instead",
            field="identifier", reason="ACCOUNT_TAKEN",
        )  # fmt: skip


class AccountStore:
    """The cloud accounts of a tenant."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(self, scope: Scope, new: NewAccount) -> Record:
        """Add an account.

        Raises:
            AccountTaken: the tenant has it already.
        """
        kept = new.credential
        try:
            row = await self._db.find(
                scope, ADD, scope.tenant, new.id, new.provider, new.identifier, new.name, new.status,
                dict(new.config), kept.kind, kept.reference, kept.sealed, kept.status, new.synthetic, new.created_by,
            )  # fmt: skip
        except UniqueViolated:
            raise AccountTaken(new.provider, new.identifier) from None
        return dict(row) if row else {}

    async def find(self, scope: Scope, account_id: UUID) -> Record | None:
        """Return one account, with its sealed credential."""
        row = await self._db.find(scope, FIND, scope.tenant, account_id)
        return dict(row) if row else None

    async def list_page(
        self, scope: Scope, limit: int, before: UUID | None, *, provider: str | None = None, status: str | None = None
    ) -> list[Record]:
        """Return some, newest first."""
        rows = await self._db.fetch(scope, LIST, scope.tenant, limit, before, provider, status)
        return [dict(row) for row in rows]

    async def change(self, scope: Scope, account_id: UUID, changed: ChangedAccount) -> Record | None:
        """Change the version that was read; None when the account has moved on since."""
        kept = changed.credential
        row = await self._db.find(
            scope, CHANGE, scope.tenant, account_id, changed.name, changed.status, dict(changed.config), kept.kind,
            kept.reference, kept.sealed, kept.status, changed.last_error, changed.version,
        )  # fmt: skip
        return dict(row) if row else None

    async def note(
        self, scope: Scope, account_id: UUID, version: int, verdict: Verdict, *, synced: bool = False
    ) -> Record | None:
        """Note what was found out about a version of an account; None when it has moved on since."""
        row = await self._db.find(
            scope, NOTE, scope.tenant, account_id, version, verdict.status, verdict.credential_status,
            verdict.last_error, synced,
        )  # fmt: skip
        return dict(row) if row else None

    async def delete(self, scope: Scope, account_id: UUID) -> bool:
        """Hide an account and all its costs at once, and forget its credential; whether it was there."""
        async with self._db.unit(scope):
            await self._db.execute(scope, HIDE_SLICES, scope.tenant, account_id)
            return bool(await self._db.execute(scope, DELETE, scope.tenant, account_id))
