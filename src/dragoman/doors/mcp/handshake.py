"""What a session asks, served with a transport of the SDK for each request, so that nothing is left of it after."""

from typing import Any, Final

import anyio
from mcp.server.connection import Connection
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.runner import serve_connection
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext

from dragoman.doors.mcp.exchange import SCOPE_KEY, Exchange
from dragoman.doors.mcp.notes import Noted
from dragoman.doors.mcp.questions import CAPABILITIES
from dragoman.doors.mcp.ticket import Ticket
from dragoman.doors.mcp.wire import Json
from dragoman.infra.edge import AsgiScope, Receive, Send

_TOLD: Final = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)


class Handshakes:
    """Answers `initialize`, and all that is asked under the session that came of it."""

    def __init__(self, server: "Server[Any]") -> None:
        self._server = server
        self._options = server.create_initialization_options(_TOLD)

    async def serve(self, scope: AsgiScope, receive: Receive, send: Send, *, ticket: Ticket, noted: Noted) -> None:
        """Answer one request; the response names the session."""
        transport = StreamableHTTPServerTransport(mcp_session_id=ticket.text)
        async with transport.connect() as (reading, writing):
            dispatcher = JSONRPCDispatcher[TransportContext](
                reading, writing, inline_methods=frozenset({"initialize"}), transport_builder=_transport
            )
            declared: Json = {}
            for need in ticket.able:
                declared |= CAPABILITIES[need]
            connection = Connection.from_envelope(ticket.version, None, declared)
            exchange = Exchange(ticket, noted, writing.send)

            async def work() -> None:
                await serve_connection(
                    self._server, dispatcher, connection=connection, lifespan_state=None, init_options=self._options
                )

            async with anyio.create_task_group() as group:
                group.start_soon(work)
                try:
                    await transport.handle_request({**scope, SCOPE_KEY: exchange}, receive, send)
                finally:
                    # What still works for a client that has left ends with this.
                    with anyio.CancelScope(shield=True):
                        await transport.terminate()


def _transport(_: object) -> TransportContext:
    # The SDK would wait here for an answer that may come to another process; questions go out by our own hand.
    return TransportContext(kind="streamable-http", can_send_request=False)
