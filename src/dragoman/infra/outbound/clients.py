"""The one place that makes clients for outgoing requests, each under the breaker of where it sends to.

A client that is made elsewhere in the server is refused by tests/rules/test_outgoing.py, so that no upstream can be
without a breaker by an oversight.
"""

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

import httpx

from dragoman import __version__
from dragoman.infra.breaker import Breakers
from dragoman.infra.outbound.addresses import Allowed
from dragoman.infra.outbound.guard import Guard, resolving_for

_MEBIBYTE: Final = 1_048_576
_AGENT: Final = {"user-agent": f"dragoman/{__version__}"}


class Upstream(StrEnum):
    """The kinds of upstream, as `/health` and the metrics name them."""

    JWKS = "jwks"
    MODEL = "model"
    EMBEDDINGS = "embeddings"
    GIT = "git"
    SIGNING = "signing_provider"
    WEBHOOK = "webhook"
    WORKER = "worker"
    BILLING_EXPORT = "billing_export"
    WEBHOOK_SENDER = "webhook_sender"
    WEBHOOK_KEYS = "webhook_keys"


class Clients:
    """Makes clients: for addresses of the operator's choice, and guarded ones for addresses that tenants choose."""

    def __init__(self, breakers: Breakers, allowed: Allowed) -> None:
        self.breakers = breakers
        self._allowed = allowed

    def own(self, upstream: Upstream, **options: Any) -> httpx.AsyncClient:
        """Return a client for an upstream that the operator configured; its breaker is one for all tenants."""
        self.breakers.declare(upstream.value)
        return _WatchedClient(self.breakers, upstream, None, **options)

    def unwatched(self, **options: Any) -> httpx.AsyncClient:
        """Return a client for who enters the breaker by itself, because more than no answer counts there."""
        return httpx.AsyncClient(**options)

    def of_tenants(
        self,
        upstream: Upstream,
        *,
        most_bytes: int = _MEBIBYTE,
        timeout_s: float | None = None,
        answer_s: float | None = None,
    ) -> "TenantClients":
        """Return the clients for an upstream that each tenant configures for itself.

        `timeout_s` bounds each step of a request as httpx does, `answer_s` all of it until the answer begins.
        """
        self.breakers.declare(upstream.value, of_tenants=True)
        options: dict[str, Any] = {} if timeout_s is None else {"timeout": timeout_s}
        guard = Guard(self._allowed, most_bytes=most_bytes)
        return TenantClients(self.breakers, upstream, guard, answer_s=answer_s, options=options)

    def guard(self) -> Guard:
        """Return a guard for what connects by itself."""
        return Guard(self._allowed)


class TenantClients:
    """Clients of one kind, which share a guard: each tenant has breakers of its own."""

    def __init__(
        self,
        breakers: Breakers,
        upstream: Upstream,
        guard: Guard,
        *,
        answer_s: float | None,
        options: Mapping[str, Any],
    ) -> None:
        self._breakers = breakers
        self._upstream = upstream
        self.guard = guard
        self._answer_s = answer_s
        self._options = options

    def of(self, tenant: UUID) -> httpx.AsyncClient:
        """Return a client of this tenant. It is not to be closed, because that would close the guard of all."""
        return _WatchedClient(
            self._breakers,
            self._upstream,
            tenant,
            answer_s=self._answer_s,
            transport=self.guard,
            trust_env=False,
            headers=_AGENT,
            **self._options,
        )

    async def check(self, tenant: UUID, url: str) -> None:
        """Refuse early what would be refused when it is sent to.

        Raises:
            OutboundRefused: it may not be reached.
            UpstreamUnavailable: its breaker is open.
        """
        self._breakers.check(self._upstream.value, host=_place(httpx.URL(url)), tenant=tenant)
        with resolving_for(tenant):
            await self.guard.check(url)

    async def aclose(self) -> None:
        """Close what is open."""
        await self.guard.aclose()


class _WatchedClient(httpx.AsyncClient):
    """A client whose requests go through a breaker: no answer and answers of the kind 5xx count against the host."""

    def __init__(
        self, breakers: Breakers, upstream: Upstream, tenant: UUID | None, *, answer_s: float | None = None, **rest: Any
    ) -> None:
        super().__init__(**rest)
        self._breakers = breakers
        self._upstream = upstream
        self._tenant = tenant
        self._answer_s = answer_s

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send a request, unless the breaker of its host is open.

        Raises:
            UpstreamUnavailable: it is open.
        """
        host = _place(request.url)
        async with self._breakers.guard(self._upstream.value, host=host, tenant=self._tenant) as call:
            try:
                # A limit of whoever waits would look like a cancellation, which says nothing about the host.
                async with asyncio.timeout(self._answer_s):
                    with resolving_for(self._tenant):
                        response = await super().send(request, **options)
            except TimeoutError as error:
                raise httpx.ReadTimeout(f"no answer within {self._answer_s:g} s", request=request) from error
            call.failed = response.status_code >= 500
        return response


def _place(url: httpx.URL) -> str:
    port = url.port or (80 if url.scheme == "http" else 443)
    return f"{url.host}:{port}"
