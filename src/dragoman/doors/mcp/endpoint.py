"""Streamable HTTP over a server of ours. No process remembers a session, so that any of them can answer any request."""

import asyncio
from typing import Final

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from dragoman.context import Caller
from dragoman.doors.mcp.handshake import Handshakes
from dragoman.doors.mcp.notes import Noted
from dragoman.doors.mcp.offer import Offer
from dragoman.doors.mcp.server import build_server
from dragoman.doors.mcp.standing import Standing
from dragoman.doors.mcp.ticket import Ticket
from dragoman.doors.mcp.wire import Json, is_response
from dragoman.errors import NotFound, UpstreamUnavailable
from dragoman.infra.edge import AsgiScope, Receive, Send

_VERSION: Final = b"mcp-protocol-version"


class Endpoint:
    """Answers messages: those of a session always, all others while `run` is running."""

    def __init__(self, offer: Offer) -> None:
        parts = build_server(offer)
        self._server, self._max_body_bytes = parts.server, offer.max_body_bytes
        self._handshakes = Handshakes(parts.server)
        self._standing = Standing(offer, parts.listening, parts.notes)
        self._tickets, self._notes = parts.tickets, parts.notes
        self._pushed, self._listening, self._waits = parts.pushed, parts.listening, parts.waits
        self._changes = offer.changes
        self._manager: StreamableHTTPSessionManager | None = None
        # Clear while a run begins: requests wait for it. Set, there is a manager, or the last run has failed.
        self._settled = asyncio.Event()

    async def run(self) -> None:
        """Run a session manager of the SDK until cancelled; it is entered and left here, in one task.

        A manager can be run once, so each run has its own. Between two runs, requests that need one are refused.
        """
        self._settled.clear()
        try:
            # Hosts and origins are checked at the edge. JSON-only answers would drop progress, and not see a client go.
            manager = StreamableHTTPSessionManager(
                self._server, stateless=True, max_request_body_size=self._max_body_bytes
            )
            async with manager.run():
                self._manager = manager
                self._settled.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    self._manager = None
        finally:
            self._settled.set()

    def leave(self) -> None:
        """End the streams that would never end by themselves, and the calls that wait for a person or a task."""
        self._listening.close()
        self._pushed.close()
        self._waits.close()

    async def serve(
        self, scope: AsgiScope, receive: Receive, send: Send, *, caller: Caller, session: str | None, message: Json
    ) -> None:
        """Answer one message.

        Raises:
            DragomanError: before anything was answered: there is no such session, what it answers is refused, or the
                SDK has failed.
        """
        version = next((value.decode("latin-1") for name, value in scope["headers"] if name == _VERSION), None)
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._manage(scope, receive, send)
        elif message.get("method") == "initialize":
            ticket = self._tickets.issue(caller, message.get("params"))
            await self._handshakes.serve(scope, receive, send, ticket=ticket, noted=Noted())
        elif session is None:
            await self._manage(scope, receive, send)
        else:
            ticket, noted = await self._enter(caller, session)
            if is_response(message):
                await self._pushed.take(caller, ticket, message)
                await _answer(send, 202)
            else:
                await self._handshakes.serve(scope, receive, send, ticket=ticket, noted=noted)

    async def listen(self, receive: Receive, send: Send, *, caller: Caller, session: str) -> None:
        """Tell a session what changes, until somebody leaves.

        Raises:
            DragomanError: there is no such session, or there are too many streams.
        """
        ticket, _ = await self._enter(caller, session)
        await self._standing.serve(receive, send, caller=caller, ticket=ticket)

    async def end(self, send: Send, *, caller: Caller, session: str) -> None:
        """Let a session be over.

        Raises:
            DragomanError: there is no such session, or nobody can be told that it is over.
        """
        ticket, _ = await self._enter(caller, session)
        await self._notes.end(caller.tenant, ticket)
        self._changes.happened(ticket.id)
        await _answer(send, 204)

    async def _enter(self, caller: Caller, session: str) -> tuple[Ticket, Noted]:
        ticket = self._tickets.get(caller, session)
        noted = await self._notes.find(caller.tenant, ticket) or Noted()
        if noted.ended:
            raise NotFound("session", session[:40])
        return ticket, noted

    async def _manage(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer a request without a session.

        Raises:
            UpstreamUnavailable: the session manager of the SDK has failed, and is not back yet.
        """
        await self._settled.wait()
        if self._manager is None:
            raise UpstreamUnavailable("the MCP session manager", retry_after_s=1)
        await self._manager.handle_request(scope, receive, send)


async def _answer(send: Send, status: int) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})
