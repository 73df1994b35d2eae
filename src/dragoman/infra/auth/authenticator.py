"""Headers in, Caller out. Why it failed goes to the log; the caller is told only that it did."""

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast
from uuid import UUID

from dragoman.context import Caller, PrincipalType, Role, TenantId
from dragoman.errors import Unauthenticated
from dragoman.infra.auth.secrets import INVITATION_PREFIX, LINK_PREFIX, ApiKey, hash_secret, parse_api_key
from dragoman.infra.auth.tokens import TokenVerifier
from dragoman.text import clean_name

# How long a process may go on with what it knows of a tenant or key. A revocation does not wait for this:
# it is looked up on every request.
_KEEP_S = 5.0
_MOST_KEPT = 10_000
_OPENID_SCOPES = frozenset({"openid", "profile", "email", "address", "phone", "offline_access"})
# What an invitation or a link to sign may do; no token and no key can have it, whatever it lists.
_INVITATION_SCOPES = frozenset({"accept:invitation"})
_LINK_SCOPES = frozenset({"answer:link"})
ONE_TIME_SCOPES = _INVITATION_SCOPES | _LINK_SCOPES
# OpenID Connect promises no longer subject; a token id must fit where `token.revoke` takes it.
_LONGEST_SUBJECT, _LONGEST_TOKEN_ID = 255, 200


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


@dataclass(frozen=True, slots=True)
class LinkRecord:
    """Which open link a code is."""

    tenant: TenantRecord
    link_id: UUID


@dataclass(frozen=True, slots=True)
class KindClaim:
    """Which claim says what kind of principal a token is for, and which of its values mean a person.

    Issuers name it in their own ways: `idtyp: user`, `gty`, `auth_time` (any value: `*`) where only people sign in.
    """

    name: str = "type"
    people: frozenset[str] = frozenset({PrincipalType.USER.value})

    def find(self, claims: Mapping[str, Any]) -> PrincipalType | None:
        """Return the kind that a token states, or None when it states none that is known."""
        value = claims.get(self.name)
        if isinstance(value, str) and value in (PrincipalType.AGENT.value, PrincipalType.SERVICE.value):
            return PrincipalType(value)
        if value is None or isinstance(value, bool):
            return None
        return PrincipalType.USER if "*" in self.people or str(value) in self.people else None


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

    async def find_link(self, code_hash: bytes) -> LinkRecord | None:
        """By the hash of its code; None when it has expired, was answered, or the request was called off."""
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
        kind_claim: "KindClaim | None" = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._tokens = tokens
        self._directory = directory
        self._pepper = pepper
        self._tenant_claim = tenant_claim
        self._roles_claim = roles_claim
        self._kind_claim = kind_claim or KindClaim()
        self._clock = clock
        self._kept: dict[str, tuple[float, Caller]] = {}

    async def authenticate(self, authorization: str | None, api_key: str | None) -> Caller:
        """The caller behind `Authorization: Bearer ...` or `X-API-Key: ...`.

        Raises:
            Unauthenticated: nothing was presented, or it is not valid.
        """
        presented = _presented(authorization, api_key)
        kept = self._kept.get(presented)
        now = self._clock()
        if kept is not None and kept[0] > now:
            return kept[1]
        if presented.startswith(INVITATION_PREFIX):
            return await self._by_invitation(presented)
        if presented.startswith(LINK_PREFIX):
            return await self._by_link(presented)
        if (key := parse_api_key(presented)) is not None:
            caller, until = await self._by_key(key)
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
        kind = self._kind_claim.find(claims)
        caller = Caller(
            tenant=TenantId(tenant.id),
            tenant_slug=tenant.slug,
            plan=tenant.plan,
            subject=_subject(claims["sub"]),
            type=kind or _least_trusted(roles),
            kind_unknown=kind is None,
            roles=roles,
            scopes=_scopes(claims),
            credential=_token_id(claims.get("jti"), token),
            issued_at=float(claims["iat"]),
            expires_at=float(claims["exp"]),
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
            scopes=_INVITATION_SCOPES,
            credential=f"invitation:{record.user_id}",
            issued_at=self._clock(),
        )

    async def _by_link(self, code: str) -> Caller:
        record = await self._directory.find_link(hash_secret(code, self._pepper))
        if record is None or record.tenant.status != "active":
            raise Unauthenticated("link unknown, answered or expired")
        name = f"link:{record.link_id}"
        return Caller(
            tenant=TenantId(record.tenant.id),
            tenant_slug=record.tenant.slug,
            plan=record.tenant.plan,
            subject=name,
            type=PrincipalType.USER,
            roles=frozenset(),
            scopes=_LINK_SCOPES,
            credential=name,
            issued_at=self._clock(),
            by_link=record.link_id,
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
            scopes=record.scopes - ONE_TIME_SCOPES if record.scopes is not None else None,
            credential=str(key.id),
            issued_at=record.created_at,
            expires_at=record.expires_at,
            by_key=True,
        )
        return caller, record.expires_at or float("inf")


def _presented(authorization: str | None, api_key: str | None) -> str:
    # With two, a proxy in front may have looked at the one and we would go by the other.
    if authorization and api_key:
        raise Unauthenticated("both a bearer token and an api key")
    if api_key:
        if parse_api_key(api_key) is None:
            raise Unauthenticated("api key malformed")
        return api_key
    if not authorization:
        raise Unauthenticated("no credentials", presented=False)
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() != "bearer" or not value.strip():
        # Not quoted: without a scheme, what stands in its place is the secret itself.
        raise Unauthenticated("authorization is not a bearer token")
    return value.strip()


def _subject(value: str) -> str:
    # Revocations name a subject as we store it. One that is spelled in another way would slip past them, and one that
    # is respelled here could be taken for somebody else.
    try:
        canonical = clean_name(value)
    except ValueError:
        canonical = None
    if value != canonical or len(value) > _LONGEST_SUBJECT:
        raise Unauthenticated("token subject is too long or not in canonical form")
    return value


def _token_id(value: str | None, token: str) -> str:
    if not value:
        # Of what is signed alone: a signature can be written in several ways, and each would be another credential.
        return hashlib.sha256(token.rpartition(".")[0].encode()).hexdigest()[:32]
    if len(value) > _LONGEST_TOKEN_ID or not (value.isascii() and value.isprintable()):
        raise Unauthenticated("token id is too long or not printable ASCII")
    return value


def _roles(value: object) -> frozenset[Role]:
    named = value.split() if isinstance(value, str) else value
    return frozenset(role for role in Role if isinstance(named, list) and role.value in named)


def _scopes(claims: Mapping[str, Any]) -> frozenset[str] | None:
    value: object = claims.get("scopes") if claims.get("scope") is None else claims["scope"]
    if value is None:
        return None
    listed = value.split() if isinstance(value, str) else value
    if not isinstance(listed, list):
        raise Unauthenticated("token scopes are neither a text nor a list")
    named = frozenset(scope for scope in cast("list[object]", listed) if isinstance(scope, str))
    # `openid profile` says what the issuer tells about its bearer, not what the bearer may do here.
    return None if named and named <= _OPENID_SCOPES else named - _OPENID_SCOPES - ONE_TIME_SCOPES


def _least_trusted(roles: frozenset[Role]) -> PrincipalType:
    # A program may look after the memories of all users, so a bearer of unknown kind is held to the rules of a user.
    return PrincipalType.AGENT if roles == frozenset({Role.AGENT}) else PrincipalType.USER
