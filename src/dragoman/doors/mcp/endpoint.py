"""The SDK's streamable HTTP over a server of ours: no sessions, so that any process can answer any request."""

import asyncio

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from dragoman.doors.mcp.offer import Offer
from dragoman.doors.mcp.server import build_server
from dragoman.infra.edge import AsgiScope, Receive, Send


class Endpoint:
    """Runs in a task of its own: what the SDK enters and leaves must be entered and left in the same one."""

    def __init__(self, offer: Offer) -> None:
        # Hosts and origins are checked at the edge. JSON-only answers would drop progress, and not see a client leave.
        server, self._listening = build_server(offer)
        self._manager = StreamableHTTPSessionManager(server, stateless=True, max_request_body_size=offer.max_body_bytes)
        self._ready = asyncio.Event()
        self._ending = asyncio.Event()
        self._work: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Be ready to answer."""
        self._work = asyncio.create_task(self._run())
        await self._ready.wait()

    def leave(self) -> None:
        """End the streams that would never end by themselves."""
        self._listening.close()

    async def stop(self) -> None:
        """Cut off what is still being answered."""
        self._ending.set()
        if self._work is not None:
            await self._work

    async def serve(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._manager.handle_request(scope, receive, send)

    async def _run(self) -> None:
        async with self._manager.run():
            self._ready.set()
            await self._ending.wait()
