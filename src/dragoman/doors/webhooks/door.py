"""The door for webhooks: no credentials but the sender's signature over the bytes that came.

It answers 202 once a webhook is kept, and 401 with a security event when it is not from whom it claims to be.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Protocol
from urllib.parse import parse_qs
from uuid import UUID

import orjson

from dragoman.context import RequestContext
from dragoman.errors import MethodNotAllowed, NotFound, Unauthenticated
from dragoman.infra.edge import Answer, AsgiScope, Receive, Send, exchange, read_body
from dragoman.infra.telemetry import SecurityEvents

PREFIX: Final = "/api/webhooks/"


class Receipt(Protocol):
    """That a webhook is kept."""

    @property
    def id(self) -> UUID:
        """Of what was kept."""
        ...

    @property
    def duplicate(self) -> bool:
        """Whether it came before."""
        ...


class Receiver(Protocol):
    """Whoever takes the webhooks of a provider."""

    async def receive(self, provider: str, configuration: str, headers: Mapping[str, str], body: bytes) -> Receipt:
        """Keep it.

        Raises:
            Unauthenticated: it is not from whom it claims to be.
        """
        ...


class WebhookDoor:
    """Hands a webhook to who takes it, byte by byte as it came."""

    def __init__(self, receivers: Mapping[str, Receiver], security: SecurityEvents) -> None:
        self._receivers = receivers
        self._security = security

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await exchange("webhooks", self._answer, scope, receive, send)

    async def _answer(self, scope: AsgiScope, receive: Receive, request: RequestContext) -> Answer:
        provider, _, configuration = scope["path"].removeprefix(PREFIX).partition("/")
        receiver = self._receivers.get(provider)
        if receiver is None:
            raise NotFound("path", scope["path"][:200])
        request.route = f"{PREFIX}{{provider}}/{{configuration_id}}"
        if scope["method"] != "POST":
            raise MethodNotAllowed(scope["method"], ["POST"])
        asked = parse_qs(scope["query_string"].decode("latin-1"))
        configuration = configuration or asked.get("configuration_id", [""])[0]
        headers = {name.decode("latin-1"): value for name, value in request.headers.items()}
        body = await read_body(receive)
        try:
            receipt = await receiver.receive(provider, configuration, headers, body)
        except Unauthenticated as error:
            self._security.emit("webhook_rejected", provider=provider, reason=error.reason)
            raise
        told = {
            "success": True,
            "data": {"id": str(receipt.id), "duplicate": receipt.duplicate},
            "meta": {"requestId": request.id, "timestamp": datetime.now(UTC).isoformat()},
        }
        return 202, [(b"content-type", b"application/json")], orjson.dumps(told)
