"""Bearer tokens: made by the embedded issuer, checked from whoever issues them."""

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from dragoman.errors import Unauthenticated
from dragoman.infra.ids import new_id

EMBEDDED_ISSUER = "dragoman"
ALGORITHMS = ["RS256", "ES256", "EdDSA"]
_MOST_CACHED = 10_000
_LEEWAY_S = 5
_LONGEST = 16_384


class KeySource(Protocol):
    """Where public keys come from."""

    async def find(self, key_id: str | None) -> jwt.PyJWK | None:
        """The key of that id, or None when the issuer has no such key."""
        ...


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token should say about its bearer."""

    tenant: str
    subject: str
    roles: Sequence[str]
    scopes: Sequence[str] | None = None
    type: str = "user"


class Issuer:
    """Makes tokens with the installation's own key, and publishes the public half."""

    def __init__(
        self, key: ec.EllipticCurvePrivateKey, *, audience: str, ttl_s: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._key = key
        self._audience = audience
        self._ttl_s = ttl_s
        self._clock = clock
        public = key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self._key_id = hashlib.sha256(public).hexdigest()[:16]

    def mint(self, grant: Grant, *, ttl_s: int | None = None) -> str:
        """A signed token; its `jti` is what a revocation names."""
        # Fractions of a second: a token made right after its bearer's role changed must count as newer.
        now = self._clock()
        claims: dict[str, Any] = {
            "iss": EMBEDDED_ISSUER,
            "aud": self._audience,
            "sub": grant.subject,
            "tenant": grant.tenant,
            "roles": list(grant.roles),
            "type": grant.type,
            "jti": str(new_id()),
            "iat": now,
            "nbf": int(now),
            "exp": int(now) + (self._ttl_s if ttl_s is None else ttl_s),
        }
        if grant.scopes is not None:
            claims["scope"] = " ".join(grant.scopes)
        return jwt.encode(claims, self._key, algorithm="ES256", headers={"kid": self._key_id})

    def jwks(self) -> dict[str, Any]:
        """The public key as other parties read it (RFC 7517)."""
        key = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return {"keys": [{**key, "kid": self._key_id, "alg": "ES256", "use": "sig"}]}

    async def find(self, key_id: str | None) -> jwt.PyJWK | None:
        """A KeySource of one key."""
        return jwt.PyJWK(self.jwks()["keys"][0]) if key_id == self._key_id else None


class TokenVerifier:
    """Checks a token once and remembers the answer until the token expires.

    A token ends when it is `max_age_s` old, whatever it says: what was revoked need not be remembered for longer.
    """

    def __init__(
        self,
        keys: KeySource,
        *,
        issuer: str | None,
        audience: str,
        max_age_s: float = math.inf,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._max_age_s = max_age_s
        self._clock = clock
        self._known: dict[str, Mapping[str, Any]] = {}

    async def verify(self, token: str) -> Mapping[str, Any]:
        """The claims of a valid token.

        Raises:
            Unauthenticated: with a reason for the log.
        """
        if len(token) > _LONGEST:
            raise Unauthenticated("token too long")
        now = self._clock()
        if (known := self._known.get(token)) is not None:
            if known["exp"] + _LEEWAY_S > now:
                return known
            del self._known[token]
            raise Unauthenticated("token expired")
        claims = await self._check(token)
        if len(self._known) >= _MOST_CACHED:
            self._known.pop(next(iter(self._known)))
        self._known[token] = claims
        return claims

    async def _check(self, token: str) -> Mapping[str, Any]:
        try:
            header = jwt.get_unverified_header(token)
            algorithm = header.get("alg")
            if algorithm not in ALGORITHMS:
                raise Unauthenticated(f"token algorithm {algorithm!r} is not accepted")
            key = await self._keys.find(header.get("kid"))
            if key is None:
                raise Unauthenticated("token signed by an unknown key")
            claims = jwt.decode(
                token,
                key,
                # The key decides its algorithm; the header only has to agree with it.
                algorithms=[key.algorithm_name],
                audience=self._audience,
                issuer=self._issuer,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iat", "sub"]},
            )
        except jwt.InvalidTokenError as error:
            # Not `token: ...`: the log would take the reason for the token and hide it.
            raise Unauthenticated(f"jwt refused, {error}") from None
        except (ValueError, TypeError, RecursionError) as error:
            raise Unauthenticated(f"token malformed: {error}") from None
        if not all(_is_time(claims[name]) for name in ("exp", "iat")):
            raise Unauthenticated("token times are not numbers of seconds")
        ends = min(claims["exp"], claims["iat"] + self._max_age_s)
        if ends + _LEEWAY_S <= self._clock():
            raise Unauthenticated("token is older than any may be")
        return {**claims, "exp": ends}


def _is_time(value: object) -> bool:
    # The library also takes text and truth for a time; we reckon with it.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53
