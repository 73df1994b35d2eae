"""Rules of registered agents: who registers hands out no more than they have, and a key fits one certificate."""

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from dragoman.context import Caller, PrincipalType, Role, TenantId
from dragoman.errors import InvalidInput, NotFound, Stale, Unauthenticated
from dragoman.infra.auth.secrets import hash_secret
from dragoman.infra.db import scope_of
from dragoman.operations import Page, page
from dragoman.services.gateway import models as m
from dragoman.services.gateway.certificates import CertificateCheck, read_certificate
from dragoman.services.gateway.store import GatewayStore, Record, Secret, Shown
from dragoman.services.tenancy.errors import ScopeTooWide, WrongState

_PREFIX: Final = "dga"
_SECRET_CHARACTERS: Final = 64


@dataclass(frozen=True, slots=True)
class AgentKey:
    """`dga_<id>_<secret>`: the id finds the registration, the secret proves it."""

    id: UUID
    secret: str

    @property
    def text(self) -> str:
        """As the agent presents it."""
        return f"{_PREFIX}_{self.id.hex}_{self.secret}"


def parse_agent_key(text: str) -> AgentKey | None:
    """Return the parts of a key, or None when it cannot be one of an agent."""
    prefix, _, rest = text.partition("_")
    agent_id, _, secret = rest.partition("_")
    well_formed = prefix == _PREFIX and len(secret) == _SECRET_CHARACTERS and secret.isascii() and secret.isalnum()
    try:
        return AgentKey(UUID(hex=agent_id), secret) if well_formed else None
    except ValueError:
        return None


class GatewayService:
    """Registers agents, and tells who is behind a certificate and a key."""

    def __init__(
        self, store: GatewayStore, check: CertificateCheck, *, pepper: bytes, new_id: Callable[[], UUID]
    ) -> None:
        self._store = store
        self._check = check
        self._pepper = pepper
        self._new_id = new_id

    async def register(self, caller: Caller, given: m.RegisterAgent) -> m.NewAgentKey:
        """Register an agent; its key is in the answer, this once.

        Raises:
            InvalidInput: the certificate cannot be read, or has expired.
            CertificateTaken: another agent of the tenant has it.
            ScopeTooWide: the caller's own credential is narrower.
        """
        _check_scopes(caller, given.scopes)
        key = AgentKey(self._new_id(), secrets.token_hex(_SECRET_CHARACTERS // 2))
        row = await self._store.add(
            scope_of(caller),
            key.id,
            given,
            certificate=_shown(given.certificate),
            secret=self._kept(key),
            by=caller.subject,
        )
        return m.NewAgentKey.model_validate({**row, "secret": key.text})

    async def list(self, caller: Caller, wanted: m.ListAgents) -> Page[m.Agent]:
        """Return registered agents, newest first."""
        status = wanted.status.value if wanted.status else None
        rows = await self._store.list_page(scope_of(caller), wanted.limit + 1, wanted.cursor, status)
        return page([m.Agent.model_validate(row) for row in rows], wanted.limit)

    async def get(self, caller: Caller, ref: m.AgentRef) -> m.Agent:
        """Return one agent.

        Raises:
            NotFound: it is not registered with this tenant.
        """
        return m.Agent.model_validate(await self._get(caller, ref.agent_id))

    async def update(self, caller: Caller, change: m.UpdateAgent) -> m.Agent:
        """Change an agent.

        Raises:
            Stale: it is no longer at the expected version.
            ScopeTooWide: the caller's own credential is narrower.
        """
        if change.scopes is not None:
            _check_scopes(caller, change.scopes)
        current = await self._get(caller, change.agent_id)
        row = await self._store.change(
            scope_of(caller),
            change.agent_id,
            name=change.name,
            scopes=sorted(set(change.scopes)) if change.scopes is not None else None,
            endpoint=change.endpoint,
            per_min=change.per_min,
            version=change.expected_version,
        )
        if row is None:
            raise Stale("agent", expected=change.expected_version or 0, current=current["version"])
        return m.Agent.model_validate(row)

    async def rotate(self, caller: Caller, given: m.RotateAgent) -> m.NewAgentKey:
        """Give an agent a fresh key, and a fresh certificate if there is one.

        Raises:
            InvalidInput: the certificate cannot be read, or has expired.
            ScopeTooWide: the caller's own credential is narrower than what the agent may.
        """
        current = await self._get(caller, given.agent_id)
        _check_scopes(caller, current["scopes"])
        key = AgentKey(given.agent_id, secrets.token_hex(_SECRET_CHARACTERS // 2))
        row = await self._store.rotate(
            scope_of(caller),
            given.agent_id,
            old_until=datetime.now(UTC) + timedelta(seconds=given.grace_s),
            secret=self._kept(key),
            certificate=_shown(given.certificate) if given.certificate is not None else None,
        )
        if row is None:
            raise NotFound("agent", given.agent_id)
        return m.NewAgentKey.model_validate({**row, "secret": key.text})

    async def suspend(self, caller: Caller, ref: m.AgentRef) -> m.Agent:
        """Refuse an agent from its next request on.

        Raises:
            WrongState: it is suspended already.
        """
        return await self._move(caller, ref.agent_id, m.AgentStatus.ACTIVE, m.AgentStatus.SUSPENDED)

    async def resume(self, caller: Caller, ref: m.AgentRef) -> m.Agent:
        """Let a suspended agent in again.

        Raises:
            WrongState: it is not suspended.
        """
        return await self._move(caller, ref.agent_id, m.AgentStatus.SUSPENDED, m.AgentStatus.ACTIVE)

    async def remove(self, caller: Caller, ref: m.AgentRef) -> m.RemovedAgent:
        """Remove an agent.

        Raises:
            NotFound: it is not registered with this tenant.
        """
        if not await self._store.remove(scope_of(caller), ref.agent_id):
            raise NotFound("agent", ref.agent_id)
        return m.RemovedAgent(id=ref.agent_id)

    async def authenticate(self, pem: str | None, api_key: str | None) -> Caller:
        """Return the agent behind a client certificate and a key; both must be those of one registration.

        Raises:
            Unauthenticated: one is missing or wrong, or the agent or its tenant is suspended.
        """
        if pem is None:
            raise Unauthenticated("no client certificate", presented=api_key is not None)
        certificate = self._check.check(pem)
        key = parse_agent_key(api_key or "")
        if key is None:
            raise Unauthenticated("no key of an agent beside the client certificate")
        row = await self._store.authenticate(key.id)
        if row is None:
            raise Unauthenticated("agent unknown")
        self._hold(row, certificate.fingerprint, hash_secret(key.secret, self._pepper))
        if row["status"] != m.AgentStatus.ACTIVE or row["tenant_status"] != "active":
            raise Unauthenticated(f"agent is {row['status']}, its tenant {row['tenant_status']}")
        return Caller(
            tenant=TenantId(row["tenant_id"]),
            tenant_slug=row["slug"],
            plan=row["plan"],
            subject=f"a2a-agent:{key.id}",
            type=PrincipalType.AGENT,
            roles=frozenset({Role.AGENT}),
            scopes=frozenset(row["scopes"]),
            credential=str(key.id),
            issued_at=row["created_at"].timestamp(),
            by_key=True,
            per_min=row["per_min"],
        )

    def _hold(self, row: Record, fingerprint: bytes, presented: bytes) -> None:
        """Hold what was presented against the registration.

        Raises:
            Unauthenticated: it does not fit, or is from before a rotation whose grace is over.
        """
        grace = row["previous_until"] is not None and row["previous_until"] > datetime.now(UTC)
        keys = [row["secret_hash"], *([row["previous_secret_hash"]] if grace else [])]
        if not any(hmac.compare_digest(bytes(one), presented) for one in keys):
            raise Unauthenticated("agent key wrong")
        certificates = [row["fingerprint"], *([row["previous_fingerprint"]] if grace else [])]
        if fingerprint not in map(bytes, certificates):
            raise Unauthenticated("the key is that of another client certificate")

    async def _get(self, caller: Caller, agent_id: UUID) -> Record:
        row = await self._store.find(scope_of(caller), agent_id)
        if row is None:
            raise NotFound("agent", agent_id)
        return row

    async def _move(self, caller: Caller, agent_id: UUID, before: m.AgentStatus, after: m.AgentStatus) -> m.Agent:
        current = await self._get(caller, agent_id)
        if current["status"] != before:
            raise WrongState("agent", current["status"], f"an {before.value} one")
        row = await self._store.change(scope_of(caller), agent_id, status=after.value, version=current["version"])
        if row is None:
            raise WrongState("agent", "changed by another request", "a request of its own")
        return m.Agent.model_validate(row)

    def _kept(self, key: AgentKey) -> Secret:
        return Secret(hash_secret(key.secret, self._pepper), f"{key.text[:10]}...{key.text[-4:]}")


def _shown(pem: str) -> Shown:
    certificate = read_certificate(pem)
    if certificate.expires_at <= datetime.now(UTC):
        raise InvalidInput.of("certificate", f"expired on {certificate.expires_at:%Y-%m-%d}")
    return Shown(certificate.fingerprint, certificate.subject, certificate.expires_at)


def _check_scopes(caller: Caller, scopes: list[str]) -> None:
    if caller.scopes is not None and not set(scopes) <= caller.scopes:
        raise ScopeTooWide(sorted(caller.scopes))
