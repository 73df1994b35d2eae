"""Headers in, Caller out. Why it failed goes to the log; the caller is told only that it did."""

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from dragoman.context import Caller, PrincipalType, Role, TenantId
from dragoman.errors import Unauthenticated
from dragoman.infra.auth.secrets import INVITATION_PREFIX, ApiKey, hash_secret, parse_api_key
from dragoman.infra.auth.tokens import TokenVerifier

# How long a process may go on with what it knows of a tenant or key. A revocation does not wait for this:
# it is looked up on every request.
_KEEP_S = 5.0
_MOST_KEPT = 10_000
_OPENID_SCOPES = frozenset({"openid", "profile", "email", "address", "phone", "offline_access"})


@dataclass(frozen=True, slots=True)
class TenantRecord:
    """What authentication needs to know of a tenant."""

    id: UUID
    slug: str
    plan: str
    status: str


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """What authentication needs to know of an API key."""

    tenant: TenantRecord
    subject: str
    type: str
    role: str
    scopes: frozenset[str] | None
    secret_hash: bytes
    created_at: float
    expires_at: float | None
    revoked: bool


@dataclass(frozen=True, slots=True)
class InvitationRecord:
    """Whom an invitation is for."""

    tenant: TenantRecord
    user_id: UUID


class Directory(Protocol):
    """Who there is; asked before there is a caller."""

    async def find_tenant(self, ref: str) -> TenantRecord | None:
        """By slug or id."""
        ...

    async def find_key(self, key_id: UUID) -> KeyRecord | None:
        """By the public half of a key."""
        ...

    async def find_invitation(self, code_hash: bytes) -> InvitationRecord | None:
        """By the hash of its code; None when it has expired or was used."""
        ...


class Authenticator:
    """Turns a bearer token or an API key into a Caller, remembering for a few seconds what it learned."""

    def __init__(
        self,
        *,
        tokens: TokenVerifier,
        directory: Directory,
        pepper: bytes,
        tenant_claim: str = "tenant",
        roles_claim: str = "roles",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._tokens = tokens
        self._directory = directory
        self._pepper = pepper
        self._tenant_claim = tenant_claim
        self._roles_claim = roles_claim
        self._clock = clock
        self._kept: dict[str, tuple[float, Caller]] = {}

    async def authenticate(self, authorization: str | None, api_key: str | None) -> Caller:
        """The caller behind `Authorization: Bearer ...` or `X-API-Key: ...`.

        Raises:
            Unauthenticated: nothing was presented, or it is not valid.
        """
        presented = api_key or _bearer(authorization)
        kept = self._kept.get(presented)
        now = self._clock()
        if kept is not None and kept[0] > now:
            return kept[1]
        if presented.startswith(INVITATION_PREFIX):
            return await self._by_invitation(presented)
        if (key := parse_api_key(presented)) is not None:
            caller, until = await self._by_key(key)
        elif api_key:
            raise Unauthenticated("api key malformed")
        else:
            caller, until = await self._by_token(presented)
        if len(self._kept) >= _MOST_KEPT:
            self._kept.pop(next(iter(self._kept)))
        self._kept[presented] = (min(until, now + _KEEP_S), caller)
        return caller

    async def _by_token(self, token: str) -> tuple[Caller, float]:
        claims = await self._tokens.verify(token)
        tenant_ref = claims.get(self._tenant_claim)
        tenant = await self._directory.find_tenant(tenant_ref) if isinstance(tenant_ref, str) else None
        if tenant is None or tenant.status != "active":
            raise Unauthenticated(f"tenant {tenant_ref!r} is {tenant.status if tenant else 'unknown'}")
        roles = _roles(claims.get(self._roles_claim))
        caller = Caller(
            tenant=TenantId(tenant.id),
            tenant_slug=tenant.slug,
            plan=tenant.plan,
            subject=str(claims["sub"]),
            type=_principal_type(claims.get("type"), roles),
            roles=roles,
            scopes=_scopes(claims),
            credential=str(claims.get("jti") or hashlib.sha256(token.encode()).hexdigest()[:32]),
            issued_at=float(claims["iat"]),
        )
        return caller, float(claims["exp"])

    async def _by_invitation(self, code: str) -> Caller:
        record = await self._directory.find_invitation(hash_secret(code, self._pepper))
        if record is None or record.tenant.status != "active":
            raise Unauthenticated("invitation unknown, used or expired")
        return Caller(
            tenant=TenantId(record.tenant.id),
            tenant_slug=record.tenant.slug,
            plan=record.tenant.plan,
            subject=str(record.user_id),
            type=PrincipalType.USER,
            roles=frozenset(),
            scopes=frozenset({"accept:invitation"}),
            credential=f"invitation:{record.user_id}",
            issued_at=self._clock(),
        )

    async def _by_key(self, key: ApiKey) -> tuple[Caller, float]:
        record = await self._directory.find_key(key.id)
        presented_hash = hash_secret(key.secret, self._pepper)
        if record is None or not hmac.compare_digest(record.secret_hash, presented_hash):
            raise Unauthenticated("api key unknown")
        if record.revoked or record.tenant.status != "active":
            raise Unauthenticated("api key revoked" if record.revoked else f"tenant is {record.tenant.status}")
        if record.expires_at is not None and record.expires_at <= self._clock():
            raise Unauthenticated("api key expired")
        caller = Caller(
            tenant=TenantId(record.tenant.id),
            tenant_slug=record.tenant.slug,
            plan=record.tenant.plan,
            subject=record.subject,
            type=PrincipalType(record.type),
            roles=frozenset({Role(record.role)}),
            scopes=record.scopes,
            credential=str(key.id),
            issued_at=record.created_at,
        )
        return caller, record.expires_at or float("inf")


def _bearer(authorization: str | None) -> str:
    if not authorization:
        raise Unauthenticated("no credentials", presented=False)
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() != "bearer" or not value.strip():
        raise Unauthenticated(f"authorization scheme {scheme[:20]!r} is not bearer")
    return value.strip()


def _roles(value: object) -> frozenset[Role]:
    named = value.split() if isinstance(value, str) else value
    return frozenset(role for role in Role if isinstance(named, list) and role.value in named)


def _scopes(claims: Mapping[str, Any]) -> frozenset[str] | None:
    value = claims.get("scope", claims.get("scopes"))
    if value is None:
        return None
    named = frozenset(value.split() if isinstance(value, str) else [str(scope) for scope in value])
    # `openid profile` says what the issuer tells about its bearer, not what the bearer may do here.
    return None if named and named <= _OPENID_SCOPES else named - _OPENID_SCOPES


def _principal_type(value: object, roles: frozenset[Role]) -> PrincipalType:
    if isinstance(value, str) and value in {kind.value for kind in PrincipalType}:
        return PrincipalType(value)
    return PrincipalType.AGENT if roles == frozenset({Role.AGENT}) else PrincipalType.USER
