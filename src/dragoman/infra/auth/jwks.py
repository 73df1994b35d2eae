"""The public keys of an external issuer: fetched without blocking, kept a while, fetched anew when one is missing."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import httpx
import jwt
import structlog

from dragoman.errors import UpstreamUnavailable
from dragoman.infra.breaker import Breakers

_LOG = structlog.get_logger(__name__)
# An unknown key id may be a rotation or a forgery: ask the issuer, but not for every forgery.
_LEAST_BETWEEN_S = 10.0


class Jwks:
    """A KeySource over HTTP. While the issuer is away, the keys that are known go on working."""

    def __init__(
        self,
        *,
        url: str | None,
        issuer: str | None,
        breakers: Breakers,
        keep_s: float = 300,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._issuer = issuer
        self._breakers = breakers
        self._keep_s = keep_s
        self._clock = clock
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._lock = asyncio.Lock()

    async def find(self, key_id: str | None) -> jwt.PyJWK | None:
        """The key of that id; a missing one is looked for at the issuer before it is called unknown.

        Raises:
            UpstreamUnavailable: no key is known and the issuer does not answer.
        """
        now = self._clock()
        known = self._pick(key_id)
        fresh = now - self._fetched_at < self._keep_s
        if (known and fresh) or (not known and self._keys and now - self._tried_at < _LEAST_BETWEEN_S):
            return known
        async with self._lock:
            if self._tried_at <= now:
                await self._refresh(have_one=known is not None)
        return self._pick(key_id)

    def _pick(self, key_id: str | None) -> jwt.PyJWK | None:
        # A token without `kid` is fine as long as the issuer has one key only.
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    async def _refresh(self, *, have_one: bool) -> None:
        self._tried_at = self._clock()
        try:
            async with self._breakers.guard("jwks"):
                self._keys = await self._fetch()
                self._fetched_at = self._clock()
        except (UpstreamUnavailable, httpx.HTTPError, ValueError, jwt.PyJWTError) as error:
            _LOG.warning("jwks.fetch_failed", error=str(error), keys_known=len(self._keys))
            if not have_one and not self._keys:
                raise UpstreamUnavailable("the token issuer") from error

    async def _fetch(self) -> dict[str | None, jwt.PyJWK]:
        async with httpx.AsyncClient(timeout=5, follow_redirects=False) as client:
            url = self._url or await self._discover(client)
            document = await _get_json(client, url)
        keys: dict[str | None, jwt.PyJWK] = {}
        for entry in document.get("keys", []):
            try:
                keys[entry.get("kid")] = jwt.PyJWK(entry)
            except jwt.PyJWTError as error:  # an issuer may publish kinds of keys that we do not use
                _LOG.info("jwks.key_skipped", key_id=entry.get("kid"), error=str(error))
        if not keys:
            raise ValueError("the issuer publishes no key that can be used")
        return keys

    async def _discover(self, client: httpx.AsyncClient) -> str:
        document = await _get_json(client, f"{(self._issuer or '').rstrip('/')}/.well-known/openid-configuration")
        return str(document["jwks_uri"])


async def _get_json(client: httpx.AsyncClient, url: str) -> dict[str, Any]:
    response = await client.get(url)
    response.raise_for_status()
    document = response.json()
    if not isinstance(document, dict):
        raise ValueError("the issuer did not answer with a JSON object")  # noqa: TRY004 - bad data, not a bad type of ours
    return document  # pyright: ignore[reportUnknownVariableType]
