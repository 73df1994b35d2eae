"""The SQL of idempotency keys: which message of whom became, or went to, which task."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope

CLAIM: LiteralString = """
INSERT INTO task_keys (tenant_id, subject, key, digest, task_id)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::uuid[])"""
FIND: LiteralString = "SELECT digest, task_id FROM task_keys WHERE tenant_id = $1 AND subject = $2 AND key = $3"
RELEASE: LiteralString = """
DELETE FROM task_keys k USING unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[]) AS r (tenant, subject, key, task)
WHERE k.tenant_id = r.tenant AND k.subject = r.subject AND k.key = r.key AND k.task_id = r.task"""


@dataclass(frozen=True, slots=True)
class KeyClaim:
    """A key of a sender, and what was sent with it."""

    subject: str
    key: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class KeyRelease:
    """A key that its sender may use again, since its message was refused."""

    subject: str
    key: str


class KeyStore:
    """Keys are claimed and released by the core, in the transaction of what they protect; a tenant finds its own."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def find(self, tenant: UUID, subject: str, key: str) -> tuple[bytes, UUID] | None:
        """Return the digest and the task of the first use."""
        row = await self._db.find(Scope(tenant), FIND, tenant, subject, key)
        return (row["digest"], row["task_id"]) if row else None


async def claim_keys(db: Database, scope: Scope, claims: Sequence[tuple[UUID, UUID, KeyClaim]]) -> None:
    """Claim these, each for its tenant and its task, in the unit of work that is open.

    Raises:
        UniqueViolated: one of them was used before.
    """
    await db.execute(
        scope,
        CLAIM,
        [tenant for tenant, _, _ in claims],
        [claim.subject for _, _, claim in claims],
        [claim.key for _, _, claim in claims],
        [claim.digest for _, _, claim in claims],
        [task_id for _, task_id, _ in claims],
    )


async def release_keys(db: Database, scope: Scope, releases: Sequence[tuple[UUID, UUID, KeyRelease]]) -> None:
    """Release these, each of its tenant and its task, in the unit of work that is open."""
    await db.execute(
        scope,
        RELEASE,
        [tenant for tenant, _, _ in releases],
        [release.subject for _, _, release in releases],
        [release.key for _, _, release in releases],
        [task_id for _, task_id, _ in releases],
    )
