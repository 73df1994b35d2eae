"""The A2A door: plain ASGI, by its addresses."""

from datetime import UTC, datetime
from email.utils import format_datetime

from dragoman.doors.a2a.calls import Calls
from dragoman.doors.a2a.card import CARD_PATH, RPC_PATH, RPC_PATHS, Card
from dragoman.doors.a2a.jsonrpc import JsonRpc
from dragoman.doors.a2a.negotiation import asks_for_older
from dragoman.doors.a2a.old_card import OLD_CARD_PATH, old_card
from dragoman.doors.a2a.requests import Request
from dragoman.doors.a2a.rest import RestBinding
from dragoman.doors.a2a.seed_paths import SEED_PREFIX, SeedPaths
from dragoman.doors.a2a.wire_03 import card_03
from dragoman.errors import MethodNotAllowed
from dragoman.infra.edge import AsgiScope, Receive, Send


class A2ADoor:
    """Hands a request to its binding; what HTTP says better than the protocol goes on to the edge."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._rpc = JsonRpc(calls)
        self._rest = RestBinding(calls)
        self._seed = SeedPaths(calls)
        self._since = format_datetime(datetime.now(UTC), usegmt=True).encode()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request.of(scope, receive)
        request.context.door = "a2a"
        if scope["path"] in RPC_PATHS:
            request.context.route = RPC_PATH
            await self._rpc.serve(request, send)
        elif scope["path"] == CARD_PATH:
            request.context.route = CARD_PATH
            shape = card_03 if asks_for_older(request.headers, request.query) else None
            await self._show_card(request, send, await self._calls.cards.public(request.base_url, shape))
        elif scope["path"] == OLD_CARD_PATH:
            request.context.route = OLD_CARD_PATH
            await self._show_card(request, send, await self._calls.cards.public(request.base_url, old_card))
        elif scope["path"].startswith(SEED_PREFIX):
            await self._seed.serve(request, send)
        else:
            await self._rest.serve(request, send)

    async def _show_card(self, request: Request, send: Send, card: Card) -> None:
        method = request.scope["method"]
        if method not in ("GET", "HEAD"):
            raise MethodNotAllowed(method, ["GET", "HEAD"])
        headers = [
            (b"etag", card.etag.encode()),
            (b"cache-control", b"public, max-age=60"),
            (b"last-modified", self._since),
            (b"vary", b"host, a2a-version"),
        ]
        known = request.headers.get(b"if-none-match", "")
        if known and (known.strip() == "*" or card.etag in known):
            await send({"type": "http.response.start", "status": 304, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(card.body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if method == "HEAD" else card.body})
