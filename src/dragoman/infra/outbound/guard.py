"""The way out: a name is resolved once, every address it has is judged, and the connection goes to one of those."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Hashable
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from ipaddress import ip_address
from typing import Final, cast

import httpx

from dragoman.blocking import Threads
from dragoman.context import current_request
from dragoman.infra.outbound.addresses import Address, Allowed, OutboundRefused, Target, is_public, read_target

_RESOLVE_S: Final = 3.0
_THREADS, _SHARE = 32, 8
_MOST_TRIED: Final = 3
Resolve = Callable[[str, int], Awaitable[list[Address]]]


class NotResolved(httpx.ConnectError):
    """The name leads nowhere at present."""


class ResponseTooLarge(httpx.ReadError):
    """More came back than anybody asked for."""


_FOR: ContextVar[Hashable | None] = ContextVar("dragoman_resolving_for", default=None)


@contextmanager
def resolving_for(tenant: Hashable | None) -> Generator[None]:
    """Look names up for this tenant; without it, for the tenant of the request, if there is one."""
    token = _FOR.set(tenant)
    try:
        yield
    finally:
        _FOR.reset(token)


def _tenant() -> Hashable | None:
    if (tenant := _FOR.get()) is not None:
        return tenant
    request = current_request()
    return request.caller.tenant if request is not None and request.caller is not None else None


class Names:
    """The system's resolver, on threads of its own with a share for each tenant.

    A thread that waits for a name server cannot be stopped, so that a tenant whose name servers do not answer uses its
    share up, and nobody else's.
    """

    def __init__(self) -> None:
        self._threads = Threads("resolve", _THREADS, share=_SHARE)

    async def __call__(self, host: str, port: int) -> list[Address]:
        """Every address that the system knows for a name.

        Raises:
            NotResolved: it knows none, or takes too long to say.
        """
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        try:
            async with asyncio.timeout(_RESOLVE_S):
                found = await self._threads.run(_tenant(), ask)
        except (OSError, UnicodeError, TimeoutError) as error:
            raise NotResolved(f"{host} cannot be resolved") from error
        # A dictionary keeps the order in which the system prefers them.
        return list(dict.fromkeys(ip_address(str(entry[4][0]).partition("%")[0]) for entry in found))


class Guard(httpx.AsyncBaseTransport):
    """A transport for any client of httpx that sends where others say; give that client no other and no proxies.

    It follows no redirect (httpx does so in its client, and each hop comes through here again), never connects twice
    to what was judged once, and cuts off responses that are too large.
    """

    def __init__(
        self, allowed: Allowed | None = None, *, resolve: Resolve | None = None, most_bytes: int = 1_048_576
    ) -> None:
        self._allowed = allowed or Allowed()
        self._resolve = resolve or Names()
        self._most_bytes = most_bytes
        self._opened: httpx.AsyncHTTPTransport | None = None

    async def check(self, url: str) -> None:
        """Refuse early what would be refused when it is sent to. A name that leads nowhere today is let through.

        Raises:
            OutboundRefused: it may not be reached.
        """
        target = read_target(url)
        try:
            await self._addresses(target)
        except NotResolved:
            if not target.encrypted and not self._allowed.has_host(target.host):
                raise _plain() from None

    async def resolve(self, url: str) -> tuple[Target, tuple[Address, ...]]:
        """Return the target and its addresses, for what connects by itself to one of these and resolves nothing.

        Raises:
            OutboundRefused: it may not be reached.
            NotResolved: the name leads nowhere at present.
        """
        target = read_target(url)
        addresses = await self._addresses(target)
        if not addresses:
            raise NotResolved(f"{target.host} has no address")
        return target, tuple(addresses)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request to an address that was judged.

        Raises:
            OutboundRefused: it may not be reached.
        """
        target = read_target(str(request.url))
        addresses = await self._addresses(target)
        failure: httpx.ConnectError | None = None
        for address in addresses[:_MOST_TRIED]:
            try:
                response = await self._wire().handle_async_request(_pinned(request, target, address))
            except httpx.ConnectError as error:
                failure = error
                continue
            response.stream = _Capped(cast("httpx.AsyncByteStream", response.stream), self._most_bytes)
            return response
        raise failure or NotResolved(f"{target.host} has no address")

    async def aclose(self) -> None:
        """Close what is open."""
        if self._opened is not None:
            await self._opened.aclose()

    def _wire(self) -> httpx.AsyncHTTPTransport:
        """Opened when something is sent: the system's certificates take 3 MB and a tenth of a second."""
        if self._opened is None:
            # No connection is kept: two names on one address would share it, and its certificate is one name's.
            limits = httpx.Limits(max_keepalive_connections=0)
            self._opened = httpx.AsyncHTTPTransport(verify=ssl.create_default_context(), trust_env=False, limits=limits)
        return self._opened

    async def _addresses(self, target: Target) -> list[Address]:
        """Those of a target, when every one of them may be reached."""
        found = [target.literal] if target.literal is not None else await self._resolve(target.host, target.port)
        if self._allowed.has_host(target.host) or (found and all(map(self._allowed.has_address, found))):
            return found
        if not target.encrypted:
            raise _plain()
        if not all(is_public(address) or self._allowed.has_address(address) for address in found):
            # Which address it was would tell about a network that the caller cannot see.
            raise OutboundRefused("the address leads into a network that must not be reached from here")
        return found


class _Capped(httpx.AsyncByteStream):
    """A response that ends where the most is reached."""

    def __init__(self, stream: httpx.AsyncByteStream, most_bytes: int) -> None:
        self._stream = stream
        self._left = most_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._left -= len(piece)
            if self._left < 0:
                raise ResponseTooLarge("the response is too large")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


def _pinned(request: httpx.Request, target: Target, address: Address) -> httpx.Request:
    """The same request to one address. The name stays in `Host` and in TLS, where the certificate is checked for it."""
    extensions = {**request.extensions, "sni_hostname": target.host}
    url = request.url.copy_with(host=str(address))
    return httpx.Request(request.method, url, headers=request.headers, stream=request.stream, extensions=extensions)


def _plain() -> OutboundRefused:
    return OutboundRefused("only https:// is spoken to hosts that are not allowed by name or network")
