"""One request of a session: what is known of its client, and the stream on which the client can be asked things."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCRequest

from dragoman.doors.mcp.methods import Context
from dragoman.doors.mcp.notes import Noted
from dragoman.doors.mcp.ticket import Ticket
from dragoman.doors.mcp.wire import Json

# Where the SDK, which hands on the request, does not look.
SCOPE_KEY: Final = "dragoman.mcp.exchange"


@dataclass(frozen=True, slots=True)
class Exchange:
    """Goes with the request to whoever answers it."""

    ticket: Ticket
    noted: Noted
    write: Callable[[SessionMessage], Awaitable[None]]

    async def ask(self, ctx: Context, ref: str, request: Json) -> None:
        """Send a request to the client, on the stream of the one that it has made; its answer comes by itself."""
        message = JSONRPCRequest(jsonrpc="2.0", id=ref, method=request["method"], params=request["params"])
        await self.write(SessionMessage(message, ServerMessageMetadata(related_request_id=ctx.request_id)))


def find_exchange(ctx: Context) -> Exchange | None:
    """Of the request that is answered; None where its client has no session."""
    scope: Json = getattr(ctx.request, "scope", {})
    return scope.get(SCOPE_KEY)
