"""The door for webhooks: no credentials but the proof of the sender over the bytes that came.

It answers 202 once a webhook is durable, and 401 with a security event when it is not from whom it claims to be. An
address from which many of those come is sent away before anything of its requests is read.
"""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qs

import orjson

from dragoman.context import RequestContext
from dragoman.errors import DragomanError, MethodNotAllowed, NotFound, RateLimited, TooLarge, Unauthenticated
from dragoman.infra.edge import Answer, AsgiScope, Receive, Send, exchange, read_body
from dragoman.infra.limits import Admission, network_of
from dragoman.infra.telemetry import SecurityEvents
from dragoman.services.inbox.ports import Delivery, Handshake, Receipt

PREFIX: Final = "/api/webhooks/"
_JSON: Final = [(b"content-type", b"application/json")]
# `configuration_id` is the older name, which signing providers were given.
_TARGETS: Final = ("source", "configuration_id")
# CloudEvents asks by OPTIONS whether events are wanted.
_METHODS: Final = {"azure": ("POST", "OPTIONS")}
_MOST_SENT_AWAY: Final = 10_000
_LONGEST_SHOWN: Final = 100

# Verifies and stores a delivery, or raises `Unauthenticated`.
Receiver = Callable[[Delivery], Awaitable[Receipt | Handshake]]


class WebhookDoor:
    """Hands a delivery to its receiver, byte by byte as it came."""

    def __init__(self, receivers: Mapping[str, Receiver], admission: Admission, security: SecurityEvents) -> None:
        self._receivers = receivers
        self._admission = admission
        self._security = security
        self._sent_away: OrderedDict[str, float] = OrderedDict()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await exchange("webhooks", self._answer, scope, receive, send)

    async def _answer(self, scope: AsgiScope, receive: Receive, request: RequestContext) -> Answer:
        self._refuse_sent_away(request.ip)
        provider, _, target = scope["path"].removeprefix(PREFIX).partition("/")
        receiver = self._receivers.get(provider)
        if receiver is None:
            await self._count(request.ip)
            raise NotFound("path", scope["path"][:200])
        request.route = f"{PREFIX}{{provider}}/{{source}}"
        methods = _METHODS.get(provider, ("POST",))
        if scope["method"] not in methods:
            await self._count(request.ip)
            raise MethodNotAllowed(scope["method"], methods)
        query = {name: values[0] for name, values in parse_qs(scope["query_string"].decode("latin-1")).items()}
        delivery = Delivery(
            provider=provider,
            target=target or next((query[name] for name in _TARGETS if name in query), ""),
            method=scope["method"],
            headers={name.decode("latin-1"): value for name, value in request.headers.items()},
            query=query,
            body=await self._read(receive, request.ip),
        )
        try:
            received = await receiver(delivery)
        except (Unauthenticated, TooLarge) as error:
            if isinstance(error, Unauthenticated):
                shown = delivery.target[:_LONGEST_SHOWN]
                self._security.emit("webhook_rejected", provider=provider, source=shown, reason=error.reason)
            await self._count(request.ip)
            raise
        if isinstance(received, Handshake):
            return 200, [*_JSON, *received.headers], orjson.dumps(received.body)
        return 202, _JSON, orjson.dumps(_told(received, request.id))

    async def _read(self, receive: Receive, ip: str) -> bytes:
        try:
            return await read_body(receive)
        except DragomanError:
            await self._count(ip)
            raise

    def _refuse_sent_away(self, ip: str) -> None:
        until = self._sent_away.get(network := network_of(ip))
        if until is None:
            return
        left_s = until - time.monotonic()
        if left_s > 0:
            raise RateLimited("ip", retry_after_s=int(left_s) + 1)
        del self._sent_away[network]

    async def _count(self, ip: str) -> None:
        """Count what was not verified, as a request of a stranger; whoever comes too often is sent away for a while."""
        try:
            await self._admission.admit_stranger(ip)
        except RateLimited as error:
            self._sent_away[network_of(ip)] = time.monotonic() + (error.retry_after_s or 1)
            if len(self._sent_away) > _MOST_SENT_AWAY:
                self._sent_away.popitem(last=False)
            raise


def _told(receipt: Receipt, request_id: str) -> dict[str, Any]:
    first, *more = [str(event_id) for event_id in receipt.ids]
    return {
        "success": True,
        "data": {"id": first, "duplicate": receipt.duplicate, **({"ids": [first, *more]} if more else {})},
        "meta": {"requestId": request_id, "timestamp": datetime.now(UTC).isoformat()},
    }
