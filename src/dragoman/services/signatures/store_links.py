"""The SQL of one-time links; codes are kept as keyed hashes alone."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope
from dragoman.services.audit.statements import Statements

Record = dict[str, Any]

# Of each signer one is open: a newer one ends it.
REPLACE: LiteralString = """
UPDATE signing_links SET ended_at = now(), ended_as = 'replaced'
WHERE tenant_id = $1 AND signature_id = $2 AND email = $3 AND ended_at IS NULL"""
ADD: LiteralString = """
INSERT INTO signing_links (tenant_id, id, signature_id, email, code, made_by, made_with, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
RETURNING id, signature_id, email, made_by, made_with, made_at, expires_at"""
FIND: LiteralString = """
SELECT id, signature_id, email, made_by, made_with, made_at, expires_at FROM signing_links
WHERE tenant_id = $1 AND id = $2 AND ended_at IS NULL AND expires_at > now()"""
END: LiteralString = """
UPDATE signing_links SET ended_at = now(), ended_as = $3
WHERE tenant_id = $1 AND id = $2 AND ended_at IS NULL AND expires_at > now() RETURNING signature_id"""


@dataclass(frozen=True, slots=True)
class NewLink:
    """A link on its way in."""

    id: UUID
    signature_id: UUID
    email: str
    code: bytes = field(repr=False)
    made_by: str
    made_with: str
    expires_at: datetime


class LinkStore:
    """The links of a tenant."""

    def __init__(self, db: Database, statements: Statements) -> None:
        self._db = db
        self._statements = statements

    async def add(self, scope: Scope, new: NewLink) -> Record:
        """Record a link in the place of the signer's open one."""
        async with self._db.unit(scope):
            await self._db.execute(scope, REPLACE, scope.tenant, new.signature_id, new.email)
            row = await self._db.find(
                scope, ADD, scope.tenant, new.id, new.signature_id, new.email, new.code, new.made_by, new.made_with,
                new.expires_at,
            )  # fmt: skip
            await self._statements.add(scope, "link.create", new.signature_id)
        if row is None:
            raise RuntimeError("an insert gave no row")
        return dict(row)

    async def find(self, scope: Scope, link_id: UUID) -> Record | None:
        """Return a link that can still be answered."""
        row = await self._db.find(scope, FIND, scope.tenant, link_id)
        return dict(row) if row else None

    async def end(self, scope: Scope, link_id: UUID, answer: str) -> bool:
        """Use a link up; False when it cannot be answered any more."""
        async with self._db.unit(scope):
            row = await self._db.find(scope, END, scope.tenant, link_id, answer)
            if row is None:
                return False
            await self._statements.add(scope, "link.answer", row["signature_id"])
        return True
