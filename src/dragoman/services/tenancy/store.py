"""The SQL of tenants, users, keys and revocations."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.auth.authenticator import InvitationRecord, KeyRecord, LinkRecord, TenantRecord
from dragoman.infra.db import Database, Scope

_TENANT: LiteralString = "id, slug, name, plan, status, settings, version, created_at, updated_at"
_USER: LiteralString = "id, subject, email, name, role, status, version, created_at, updated_at"
_KEY: LiteralString = (
    "id, name, subject, principal_type, role, scopes, hint, created_by, created_at, expires_at, revoked_at, replaced_by"
)
Record = dict[str, Any]

ADD_TENANT: LiteralString = f"""
INSERT INTO tenants (id, slug, name, plan, status, settings) VALUES ($1, $2, $3, $4, 'active', $5)
RETURNING {_TENANT}"""
SEED_TENANT: LiteralString = """
INSERT INTO tenants (id, slug, name, plan, status) SELECT $1, $2, $3, 'standard', 'active'
WHERE NOT EXISTS (SELECT 1 FROM tenants) ON CONFLICT DO NOTHING"""
FIND_TENANT: LiteralString = f"SELECT {_TENANT} FROM tenants WHERE id = $1 AND status <> 'deleted'"
FIND_TENANT_BY_SLUG: LiteralString = f"SELECT {_TENANT} FROM tenants WHERE slug = $1 AND status <> 'deleted'"
LIST_TENANTS: LiteralString = f"""
SELECT {_TENANT} FROM tenants
WHERE ($2::uuid IS NULL OR id < $2) AND status = ANY($3::text[]) AND ($4::text IS NULL OR plan = $4)
ORDER BY id DESC LIMIT $1"""
CHANGE_TENANT: LiteralString = f"""
UPDATE tenants SET name = coalesce($2, name), plan = coalesce($3, plan), settings = coalesce($4, settings),
       status = coalesce($5, status), version = version + 1, updated_at = now()
WHERE id = $1 AND status <> 'deleted' AND ($6::int IS NULL OR version = $6) RETURNING {_TENANT}"""

ADD_USER: LiteralString = f"""
INSERT INTO users (tenant_id, id, subject, email, name, role, status, invitation, invitation_expires_at)
VALUES ($1, $2, $3, $4, $5, $6, 'invited', $7, $8) RETURNING {_USER}, invitation_expires_at"""
FIND_USER: LiteralString = f"SELECT {_USER} FROM users WHERE tenant_id = $1 AND id = $2"
FIND_SUBJECT: LiteralString = f"SELECT {_USER} FROM users WHERE tenant_id = $1 AND subject = $2"
FIND_EMAIL: LiteralString = f"SELECT {_USER} FROM users WHERE tenant_id = $1 AND email = $2"
LIST_USERS: LiteralString = f"""
SELECT {_USER} FROM users
WHERE tenant_id = $1 AND ($3::uuid IS NULL OR id < $3) AND ($4::text IS NULL OR role = $4)
  AND ($5::text IS NULL OR status = $5)
ORDER BY id DESC LIMIT $2"""
CHANGE_USER: LiteralString = f"""
UPDATE users SET name = coalesce($3, name), role = coalesce($4, role),
       status = CASE WHEN $5 = 'active' AND invitation IS NOT NULL THEN 'invited' ELSE coalesce($5, status) END,
       version = version + 1, updated_at = now()
WHERE tenant_id = $1 AND id = $2 AND ($6::int IS NULL OR version = $6) RETURNING {_USER}"""
ACCEPT_USER: LiteralString = f"""
UPDATE users SET status = 'active', name = coalesce($3, name), invitation = NULL, invitation_expires_at = NULL,
       version = version + 1, updated_at = now()
WHERE tenant_id = $1 AND id = $2 AND status = 'invited' AND invitation_expires_at > now() RETURNING {_USER}"""
DELETE_USER: LiteralString = "DELETE FROM users WHERE tenant_id = $1 AND id = $2 RETURNING subject"
EMPTY_TENANT: LiteralString = "SELECT empty_tenant($1)"
DELETED: LiteralString = "SELECT id FROM tenants WHERE id = ANY($1) AND status = 'deleted'"

ADD_KEY: LiteralString = f"""
INSERT INTO api_keys (tenant_id, id, name, subject, principal_type, role, scopes, secret_hash, hint,
                      created_by, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING {_KEY}"""
FIND_KEY: LiteralString = f"SELECT {_KEY} FROM api_keys WHERE tenant_id = $1 AND id = $2"
# A key may have made another: all who are behind it.
FIND_MAKERS: LiteralString = """
WITH RECURSIVE made AS (
    SELECT k.created_by FROM api_keys k WHERE k.tenant_id = $1 AND k.subject = ANY($2::text[])
    UNION
    SELECT k.created_by FROM made m JOIN api_keys k ON k.tenant_id = $1 AND k.subject = m.created_by)
SELECT created_by FROM made"""
LIST_KEYS: LiteralString = f"""
SELECT {_KEY} FROM api_keys
WHERE tenant_id = $1 AND ($3::uuid IS NULL OR id < $3) AND ($4 OR revoked_at IS NULL)
ORDER BY id DESC LIMIT $2"""
END_KEY: LiteralString = f"""
UPDATE api_keys SET revoked_at = $3, expires_at = $4, replaced_by = coalesce($5, replaced_by)
WHERE tenant_id = $1 AND id = $2 AND revoked_at IS NULL AND ($5::uuid IS NULL OR replaced_by IS NULL)
RETURNING {_KEY}"""

REVOKE: LiteralString = """
INSERT INTO revocations (tenant_id, ref, not_before, reason) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant_id, ref) DO UPDATE
SET not_before = greatest(revocations.not_before, excluded.not_before), reason = excluded.reason"""
COUNT_REVOCATIONS: LiteralString = """
SELECT count(*) AS n FROM (
    SELECT FROM revocations WHERE tenant_id = $1 AND ref LIKE $2 AND ref <> $3 LIMIT $4) AS listed"""
# The row of a key outlives the entry that voids it.
END_KEY_OF_REF: LiteralString = """
UPDATE api_keys SET revoked_at = now() WHERE tenant_id = $1 AND id::text = $2 AND revoked_at IS NULL"""
END_KEYS_OF_SUBJECT: LiteralString = """
UPDATE api_keys SET revoked_at = now()
WHERE tenant_id = $1 AND subject = $2 AND created_at < $3 AND revoked_at IS NULL"""
READMIT: LiteralString = """
UPDATE revocations SET not_before = $3, reason = 'readmitted' WHERE tenant_id = $1 AND ref = $2"""
UNREVOKE: LiteralString = "DELETE FROM revocations WHERE tenant_id = $1 AND ref = $2"

FIND_TENANT_RECORD: LiteralString = "SELECT id, slug, plan, status FROM auth_find_tenant($1)"
FIND_KEY_RECORD: LiteralString = "SELECT * FROM auth_find_key($1)"
FIND_INVITATION: LiteralString = "SELECT * FROM auth_find_invitation($1)"
FIND_LINK: LiteralString = "SELECT * FROM auth_find_signing_link($1)"
# A page is read along the key, whatever the planner believes of a table that has just been filled.
ALONG_THE_KEY: LiteralString = """
SELECT set_config('enable_sort', 'off', true), set_config('enable_seqscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true)"""
LIST_REVOCATIONS: LiteralString = """
SELECT ref, not_before FROM revocations WHERE tenant_id = $1 AND ref > $2 ORDER BY ref LIMIT $3"""
_NOBODY = Scope()


class TenancyStore:
    """Each method is one statement in the given scope."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add_tenant(self, scope: Scope, *values: Any) -> Record:
        """Values: id, slug, name, plan, settings."""
        return await self._one(scope, ADD_TENANT, *values)

    async def seed_tenant(self, tenant_id: UUID, slug: str, name: str) -> bool:
        """Make the first tenant of an installation; False when it has one."""
        return await self._db.execute(Scope(platform=True), SEED_TENANT, tenant_id, slug, name) > 0

    async def find_tenant(self, scope: Scope, ref: str) -> Record | None:
        """By id or slug; a deleted one is not found."""
        try:
            tenant_id = UUID(ref)
        except ValueError:
            return await self._find(scope, FIND_TENANT_BY_SLUG, ref)
        return await self._find(scope, FIND_TENANT, tenant_id)

    async def list_tenants(
        self, scope: Scope, limit: int, after: UUID | None, statuses: Sequence[str], plan: str | None
    ) -> list[Record]:
        """Newest first."""
        return await self._all(scope, LIST_TENANTS, limit, after, list(statuses), plan)

    async def change_tenant(
        self,
        scope: Scope,
        tenant_id: UUID,
        *,
        name: str | None = None,
        plan: str | None = None,
        settings: dict[str, Any] | None = None,
        status: str | None = None,
        version: int | None = None,
    ) -> Record | None:
        """None when it is gone or has another version."""
        return await self._find(scope, CHANGE_TENANT, tenant_id, name, plan, settings, status, version)

    async def empty_tenant(self, scope: Scope, tenant_id: UUID) -> None:
        """Remove the people and keys of a tenant that is being deleted."""
        await self._db.execute(scope, EMPTY_TENANT, tenant_id)

    async def deleted_among(self, tenants: Sequence[UUID]) -> set[UUID]:
        """Those of them that were deleted."""
        return {row["id"] for row in await self._db.fetch(Scope(platform=True), DELETED, [*tenants])}

    async def add_user(self, scope: Scope, *values: Any) -> Record:
        """Values: id, subject, email, name, role, invitation hash, its expiry."""
        return await self._one(scope, ADD_USER, scope.tenant, *values)

    async def find_user(self, scope: Scope, user_id: UUID) -> Record | None:
        """One user."""
        return await self._find(scope, FIND_USER, scope.tenant, user_id)

    async def find_subject(self, scope: Scope, subject: str) -> Record | None:
        """The user whom tokens call by this name."""
        return await self._find(scope, FIND_SUBJECT, scope.tenant, subject)

    async def find_email(self, scope: Scope, email: str) -> Record | None:
        """The user with this address."""
        return await self._find(scope, FIND_EMAIL, scope.tenant, email)

    async def list_users(
        self, scope: Scope, limit: int, after: UUID | None, role: str | None, status: str | None
    ) -> list[Record]:
        """Newest first."""
        return await self._all(scope, LIST_USERS, scope.tenant, limit, after, role, status)

    async def change_user(
        self,
        scope: Scope,
        user_id: UUID,
        *,
        name: str | None = None,
        role: str | None = None,
        status: str | None = None,
        version: int | None = None,
    ) -> Record | None:
        """None when it is gone or has another version."""
        return await self._find(scope, CHANGE_USER, scope.tenant, user_id, name, role, status, version)

    async def accept_user(self, scope: Scope, user_id: UUID, name: str | None) -> Record | None:
        """None when the invitation was used already."""
        return await self._find(scope, ACCEPT_USER, scope.tenant, user_id, name)

    async def delete_user(self, scope: Scope, user_id: UUID) -> str | None:
        """The subject of the user who is gone."""
        row = await self._db.find(scope, DELETE_USER, scope.tenant, user_id)
        return row["subject"] if row else None

    async def add_key(self, scope: Scope, *values: Any) -> Record:
        """Values: id, name, subject, principal type, role, scopes, secret hash, hint, maker, expiry."""
        return await self._one(scope, ADD_KEY, scope.tenant, *values)

    async def find_key(self, scope: Scope, key_id: UUID) -> Record | None:
        """One key."""
        return await self._find(scope, FIND_KEY, scope.tenant, key_id)

    async def find_makers(self, scope: Scope, subjects: Iterable[str]) -> frozenset[str]:
        """Who made the keys of these subjects, and the keys of those who did; of revoked keys too."""
        rows = await self._all(scope, FIND_MAKERS, scope.tenant, [*subjects])
        return frozenset(row["created_by"] for row in rows)

    async def list_keys(self, scope: Scope, limit: int, after: UUID | None, *, revoked: bool) -> list[Record]:
        """Newest first."""
        return await self._all(scope, LIST_KEYS, scope.tenant, limit, after, revoked)

    async def end_key(
        self,
        scope: Scope,
        key_id: UUID,
        *,
        revoked_at: datetime | None,
        expires_at: datetime | None,
        replaced_by: UUID | None = None,
    ) -> Record | None:
        """None when it was revoked before."""
        return await self._find(scope, END_KEY, scope.tenant, key_id, revoked_at, expires_at, replaced_by)

    async def revoke(self, scope: Scope, tenant: UUID, ref: str, *, not_before: datetime, reason: str) -> None:
        """A later revocation never lets in what an earlier one refused."""
        await self._db.execute(scope, REVOKE, tenant, ref, not_before, reason)

    async def count_revocations(self, scope: Scope, tenant: UUID, kind: str, ref: str, *, most: int) -> int:
        """Count the entries of a kind (`cred:` or `user:`) beside this one, up to `most`."""
        return (await self._one(scope, COUNT_REVOCATIONS, tenant, f"{kind}%", ref, most))["n"]

    async def end_keys(self, scope: Scope, tenant: UUID, ref: str, *, not_before: datetime) -> None:
        """Mark the keys that an entry voids as revoked."""
        kind, _, name = ref.partition(":")
        if kind == "cred":
            await self._db.execute(scope, END_KEY_OF_REF, tenant, name)
        elif kind == "user":
            await self._db.execute(scope, END_KEYS_OF_SUBJECT, tenant, name, not_before)

    async def readmit(self, scope: Scope, tenant: UUID, ref: str, *, not_before: datetime) -> bool:
        """Let it in again, but only with what is issued from that moment on; False when it was never shut out."""
        return await self._db.execute(scope, READMIT, tenant, ref, not_before) > 0

    async def unrevoke(self, scope: Scope, tenant: UUID, ref: str) -> None:
        """Let it in again."""
        await self._db.execute(scope, UNREVOKE, tenant, ref)

    async def _one(self, scope: Scope, sql: LiteralString, *args: Any) -> Record:
        row = await self._db.find(scope, sql, *args)
        if row is None:
            raise RuntimeError("a statement that always returns a row returned none")
        return dict(row)

    async def _find(self, scope: Scope, sql: LiteralString, *args: Any) -> Record | None:
        row = await self._db.find(scope, sql, *args)
        return dict(row) if row else None

    async def _all(self, scope: Scope, sql: LiteralString, *args: Any) -> list[Record]:
        return [dict(row) for row in await self._db.fetch(scope, sql, *args)]


class Directory:
    """Who there is, asked before there is a caller: by functions that see past the tenant lock, and only that far."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def find_tenant(self, ref: str) -> TenantRecord | None:
        """By slug or id."""
        if not (ref.isascii() and ref.isprintable()):  # no slug and no id; the database would choke on some of it
            return None
        row = await self._db.find(_NOBODY, FIND_TENANT_RECORD, ref)
        return TenantRecord(row["id"], row["slug"], row["plan"], row["status"]) if row else None

    async def find_key(self, key_id: UUID) -> KeyRecord | None:
        """By the public half of a key."""
        row = await self._db.find(_NOBODY, FIND_KEY_RECORD, key_id)
        if row is None:
            return None
        return KeyRecord(
            tenant=TenantRecord(row["tenant_id"], row["slug"], row["plan"], row["status"]),
            subject=row["subject"],
            type=row["principal_type"],
            role=row["role"],
            scopes=frozenset(row["scopes"]) if row["scopes"] is not None else None,
            secret_hash=row["secret_hash"],
            created_at=row["created_at"].timestamp(),
            expires_at=row["expires_at"].timestamp() if row["expires_at"] else None,
            revoked=row["revoked_at"] is not None,
        )

    async def find_invitation(self, code_hash: bytes) -> InvitationRecord | None:
        """By the hash of its code."""
        row = await self._db.find(_NOBODY, FIND_INVITATION, code_hash)
        if row is None:
            return None
        return InvitationRecord(TenantRecord(row["tenant_id"], row["slug"], "standard", row["status"]), row["user_id"])

    async def find_link(self, code_hash: bytes) -> LinkRecord | None:
        """By the hash of its code."""
        row = await self._db.find(_NOBODY, FIND_LINK, code_hash)
        if row is None:
            return None
        return LinkRecord(TenantRecord(row["tenant_id"], row["slug"], row["plan"], row["status"]), row["link_id"])

    async def list_revocations(self, tenant: UUID, *, after: str, limit: int) -> Sequence[tuple[str, float]]:
        """What is refused in a tenant now, in the order of the refs: each with the time that it refuses until."""
        scope = Scope(tenant)
        async with self._db.unit(scope):
            await self._db.find(scope, ALONG_THE_KEY)
            rows = await self._db.fetch(scope, LIST_REVOCATIONS, tenant, after, limit)
        return [
            (row["ref"], float("inf") if row["not_before"].year == 9999 else row["not_before"].timestamp())
            for row in rows
        ]
