"""The public keys of an issuer elsewhere: fetched without blocking, kept a while, fetched anew when one is missing."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import httpx
import jwt
import structlog

from dragoman.errors import UpstreamUnavailable
from dragoman.infra.breaker import NETWORK_FAILURES
from dragoman.infra.outbound import Clients, Upstream

_LOG = structlog.get_logger(__name__)
# An unknown key id may be a rotation or a forgery: ask the issuer, but not for every forgery.
_LEAST_BETWEEN_S = 10.0
_FAILURES = (*NETWORK_FAILURES, httpx.HTTPStatusError, ValueError)


class Jwks:
    """A KeySource over HTTP. While the issuer is away, the keys that are known go on working."""

    def __init__(
        self,
        *,
        url: str | None,
        issuer: str | None,
        outgoing: Clients,
        upstream: Upstream = Upstream.JWKS,
        keep_s: float = 300,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._issuer = issuer
        self._outgoing = outgoing
        self._upstream = upstream
        outgoing.breakers.declare(upstream.value)
        self._keep_s = keep_s
        self._clock = clock
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, key_id: str | None) -> jwt.PyJWK | None:
        """The key of that id; a missing one is looked for at the issuer before it is called unknown.

        Raises:
            UpstreamUnavailable: no key is known and the issuer does not answer.
        """
        now = self._clock()
        known = self._pick(key_id)
        if known and now - self._fetched_at < self._keep_s:
            return known
        if self._fetching is None and (not self._keys or now - self._tried_at >= _LEAST_BETWEEN_S):
            self._tried_at = now
            self._fetching = asyncio.create_task(self._refresh())
        # A key that was good a moment ago need not wait for an issuer that may be slow; an unknown one must.
        if known or self._fetching is None:
            return known
        await asyncio.shield(self._fetching)
        if not self._keys:
            raise UpstreamUnavailable("the token issuer")
        return self._pick(key_id)

    def _pick(self, key_id: str | None) -> jwt.PyJWK | None:
        # A token without `kid` is fine as long as the issuer has one key only.
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    async def _refresh(self) -> None:
        try:
            async with self._outgoing.breakers.guard(self._upstream.value, failures=_FAILURES):
                self._keys = await self._fetch()
                self._fetched_at = self._clock()
        except (UpstreamUnavailable, httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            _LOG.warning("jwks.fetch_failed", error=str(error) or type(error).__name__, keys_known=len(self._keys))
        finally:
            self._fetching = None

    async def _fetch(self) -> dict[str | None, jwt.PyJWK]:
        async with self._outgoing.unwatched(timeout=5, follow_redirects=False) as client:
            url = self._url or await self._discover(client)
            document = await _get_json(client, url)
        keys: dict[str | None, jwt.PyJWK] = {}
        published = document.get("keys")
        for entry in cast("list[Any]", published) if isinstance(published, list) else []:
            if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
                continue
            entry = cast("dict[str, Any]", entry)
            try:
                keys[entry.get("kid")] = jwt.PyJWK(entry)
            # An issuer may publish kinds of keys that we do not use, and a broken one must not hide the others.
            except (jwt.PyJWTError, ValueError, TypeError, KeyError) as error:
                _LOG.info("jwks.key_skipped", kid=entry.get("kid"), error=str(error))
        if not keys:
            raise ValueError("the issuer publishes no key that can be used")
        return keys

    async def _discover(self, client: httpx.AsyncClient) -> str:
        document = await _get_json(client, f"{(self._issuer or '').rstrip('/')}/.well-known/openid-configuration")
        if not isinstance(url := document.get("jwks_uri"), str):
            raise ValueError("the issuer's discovery document has no jwks_uri")  # noqa: TRY004 - as below
        return url


async def _get_json(client: httpx.AsyncClient, url: str) -> dict[str, Any]:
    response = await client.get(url)
    response.raise_for_status()
    document = response.json()
    if not isinstance(document, dict):
        raise ValueError("the issuer did not answer with a JSON object")  # noqa: TRY004 - bad data, not a bad type of ours
    return document  # pyright: ignore[reportUnknownVariableType]
