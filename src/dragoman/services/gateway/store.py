"""The SQL of registered agents."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from dragoman.errors import Conflict
from dragoman.infra.db import Database, Scope, UniqueViolated
from dragoman.services.gateway.models import RegisterAgent

Record = dict[str, Any]
_AGENT: LiteralString = """
id, name, status, encode(fingerprint, 'hex') AS fingerprint, certificate_subject, certificate_expires_at, scopes,
per_min, endpoint, hint, version, created_by, created_at, updated_at"""
ADD: LiteralString = f"""
INSERT INTO gateway_agents (tenant_id, id, name, endpoint, status, fingerprint, certificate_subject,
    certificate_expires_at, secret_hash, hint, scopes, per_min, created_by)
VALUES ($1, $2, $3, $4, 'active', $5, $6, $7, $8, $9, $10, $11, $12) RETURNING {_AGENT}"""
FIND: LiteralString = f"SELECT {_AGENT} FROM gateway_agents WHERE tenant_id = $1 AND id = $2"
LIST: LiteralString = f"""
SELECT {_AGENT} FROM gateway_agents
WHERE tenant_id = $1 AND ($3::uuid IS NULL OR id < $3) AND ($4::text IS NULL OR status = $4)
ORDER BY id DESC LIMIT $2"""
CHANGE: LiteralString = f"""
UPDATE gateway_agents SET name = coalesce($3, name), scopes = coalesce($4, scopes), endpoint = coalesce($5, endpoint),
    per_min = coalesce($6, per_min), status = coalesce($7, status), version = version + 1, updated_at = now()
WHERE tenant_id = $1 AND id = $2 AND ($8::int IS NULL OR version = $8) RETURNING {_AGENT}"""
ROTATE: LiteralString = f"""
UPDATE gateway_agents SET previous_fingerprint = fingerprint, previous_secret_hash = secret_hash, previous_until = $3,
    secret_hash = $4, hint = $5, fingerprint = coalesce($6, fingerprint),
    certificate_subject = coalesce($7, certificate_subject),
    certificate_expires_at = coalesce($8, certificate_expires_at), version = version + 1, updated_at = now()
WHERE tenant_id = $1 AND id = $2 RETURNING {_AGENT}"""
REMOVE: LiteralString = "DELETE FROM gateway_agents WHERE tenant_id = $1 AND id = $2"
AUTHENTICATE: LiteralString = "SELECT * FROM auth_find_gateway_agent($1)"
_NOBODY = Scope()


@dataclass(frozen=True, slots=True)
class Shown:
    """What is kept of a certificate."""

    fingerprint: bytes
    subject: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Secret:
    """What is kept of a key."""

    hash: bytes
    hint: str


class CertificateTaken(Conflict):
    """Another agent of the tenant has this certificate."""

    def __init__(self, fingerprint: str) -> None:
        super().__init__(
            "another agent is registered with this certificate: give each agent one of its own",
            field="certificate", reason="CERTIFICATE_TAKEN", fingerprint=fingerprint,
        )  # fmt: skip


class GatewayStore:
    """The registered agents of a tenant."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(
        self, scope: Scope, agent_id: UUID, new: RegisterAgent, *, certificate: Shown, secret: Secret, by: str
    ) -> Record:
        """Register an agent.

        Raises:
            CertificateTaken: another one has the certificate.
        """
        try:
            row = await self._db.find(
                scope, ADD, scope.tenant, agent_id, new.name, new.endpoint, certificate.fingerprint,
                certificate.subject, certificate.expires_at, secret.hash, secret.hint, sorted(set(new.scopes)),
                new.per_min, by,
            )  # fmt: skip
        except UniqueViolated:
            raise CertificateTaken(certificate.fingerprint.hex()) from None
        return dict(row) if row else {}

    async def find(self, scope: Scope, agent_id: UUID) -> Record | None:
        """Return one agent."""
        row = await self._db.find(scope, FIND, scope.tenant, agent_id)
        return dict(row) if row else None

    async def list_page(self, scope: Scope, limit: int, before: UUID | None, status: str | None) -> list[Record]:
        """Return some, newest first."""
        return [dict(row) for row in await self._db.fetch(scope, LIST, scope.tenant, limit, before, status)]

    async def change(
        self,
        scope: Scope,
        agent_id: UUID,
        *,
        name: str | None = None,
        scopes: Sequence[str] | None = None,
        endpoint: str | None = None,
        per_min: int | None = None,
        status: str | None = None,
        version: int | None = None,
    ) -> Record | None:
        """Change what is given; None when it is gone or has another version."""
        listed = list(scopes) if scopes is not None else None
        row = await self._db.find(
            scope, CHANGE, scope.tenant, agent_id, name, listed, endpoint, per_min, status, version
        )
        return dict(row) if row else None

    async def rotate(
        self, scope: Scope, agent_id: UUID, *, old_until: datetime, secret: Secret, certificate: Shown | None
    ) -> Record | None:
        """Replace the key, and the certificate if there is one; the old ones are good until then.

        Raises:
            CertificateTaken: another agent has the certificate.
        """
        shown = (certificate.fingerprint, certificate.subject, certificate.expires_at) if certificate else (None,) * 3
        try:
            row = await self._db.find(
                scope, ROTATE, scope.tenant, agent_id, old_until, secret.hash, secret.hint, *shown
            )
        except UniqueViolated:
            raise CertificateTaken((shown[0] or b"").hex()) from None
        return dict(row) if row else None

    async def remove(self, scope: Scope, agent_id: UUID) -> bool:
        """Remove one; whether it was there."""
        return bool(await self._db.execute(scope, REMOVE, scope.tenant, agent_id))

    async def authenticate(self, agent_id: UUID) -> Record | None:
        """Return what authentication must know, before there is a caller."""
        row = await self._db.find(_NOBODY, AUTHENTICATE, agent_id)
        return dict(row) if row else None
