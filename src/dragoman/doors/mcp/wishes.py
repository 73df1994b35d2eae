"""What the client of a session wants to be told from now on: lines of logs from a level on, changes at addresses."""

from typing import Any

from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND, SetLevelRequestParams, SubscribeRequestParams, UnsubscribeRequestParams

from dragoman.doors.mcp.exchange import find_exchange
from dragoman.doors.mcp.methods import Context, add, require_caller
from dragoman.doors.mcp.notes import Notes
from dragoman.doors.mcp.offer import Offer
from dragoman.doors.mcp.resources import Resources
from dragoman.doors.mcp.standing import followed
from dragoman.doors.mcp.ticket import Ticket
from dragoman.doors.mcp.watch import digest_of
from dragoman.doors.mcp.wire import Json
from dragoman.errors import InvalidInput, NotFound


class Wishes:
    """Takes them down for every process. The later era has no sessions, and says such things with its requests."""

    def __init__(self, offer: Offer, resources: Resources, notes: Notes) -> None:
        self._offer = offer
        self._resources = resources
        self._notes = notes

    def join(self, server: "Server[Any]") -> None:
        """Be offered by the server."""
        add(server, "logging/setLevel", SetLevelRequestParams, self.set_level)
        add(server, "resources/subscribe", SubscribeRequestParams, self.subscribe)
        add(server, "resources/unsubscribe", UnsubscribeRequestParams, self.unsubscribe)

    async def set_level(self, ctx: Context, params: SetLevelRequestParams) -> Json:
        """From the next call on."""
        await self._notes.set_level(require_caller().tenant, _ticket(ctx), params.level)
        return {}

    async def subscribe(self, ctx: Context, params: SubscribeRequestParams) -> Json:
        """Whatever changes at the address after this is told on the stream of the session; it may not be there yet."""
        caller, ticket, uri = require_caller(), _ticket(ctx), str(params.uri)
        try:
            now = await self._resources.contents(caller, uri)
        except (NotFound, InvalidInput):
            now = None
        await self._notes.follow(caller.tenant, ticket, followed(uri), digest_of(now))
        self._offer.changes.happened(ticket.id)
        return {}

    async def unsubscribe(self, ctx: Context, params: UnsubscribeRequestParams) -> Json:
        """No more of the address."""
        caller, ticket = require_caller(), _ticket(ctx)
        await self._notes.unfollow(caller.tenant, ticket, followed(str(params.uri)))
        self._offer.changes.happened(ticket.id)
        return {}


def _ticket(ctx: Context) -> Ticket:
    """Of the session.

    Raises:
        MCPError: there is none, so there is nothing to keep a wish for.
    """
    exchange = find_exchange(ctx)
    if exchange is None:
        raise MCPError(METHOD_NOT_FOUND, "Method not found without a session", ctx.method)
    return exchange.ticket
