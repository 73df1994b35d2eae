"""The guarded way out for clients of httpx2, which the MCP SDK is made with."""

from collections.abc import AsyncIterator
from typing import cast

import httpx
import httpx2

from dragoman.errors import UpstreamUnavailable


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Hands requests to a guarded client, and its answers back; what it refuses is refused here."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request to an address that was judged.

        Raises:
            OutboundRefused: it may not be reached.
        """
        sent = httpx.Request(
            request.method,
            str(request.url),
            headers=request.headers.raw,
            stream=_Up(cast("httpx2.AsyncByteStream", request.stream)),
            extensions=dict(request.extensions),
        )
        try:
            answer = await self._client.send(sent, stream=True)
        except httpx.TimeoutException as error:
            raise httpx2.ReadTimeout(str(error)) from error
        except (httpx.TransportError, UpstreamUnavailable) as error:
            raise httpx2.ConnectError(str(error)) from error
        stream = _Down(cast("httpx.AsyncByteStream", answer.stream))
        return httpx2.Response(answer.status_code, headers=answer.headers.raw, stream=stream)


class _Up(httpx.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield piece


class _Down(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._stream:
                yield piece
        except httpx.TransportError as error:
            raise httpx2.ReadError(str(error)) from error

    async def aclose(self) -> None:
        await self._stream.aclose()
