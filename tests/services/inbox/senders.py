"""Senders of webhooks: each signs as its provider does, or says so."""

import base64
import hashlib
import hmac
import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
from standardwebhooks import Webhook

from tests.backstage import add_tenant
from tests.doors.rest.calling import data
from tests.harness import Server, wait_for

Json = dict[str, Any]
EXPORT: Json = {"type": "cost.export_ready", "data": {"objects": [{"url": "s3://billing/focus.csv.gz"}]}}


@dataclass
class Source:
    """A registered source, and the office of the tenant that registered it."""

    server: Server
    tenant: str
    shown: Json = field(default_factory=dict[str, Any])

    @classmethod
    def register(cls, server: Server, provider: str = "hmac", *, tenant: str | None = None, **more: Any) -> "Source":
        source = cls(server, tenant or add_tenant(server))
        source.shown = source.admin("POST", "/api/webhook-sources", {"name": "One", "provider": provider, **more}, 201)
        return source

    @property
    def id(self) -> str:
        return str(self.shown["id"])

    @property
    def path(self) -> str:
        return str(self.shown["path"])

    @property
    def secret(self) -> str:
        return str(self.shown["secret"])

    def admin(self, method: str, path: str, body: Any = None, status: int = 200, **options: Any) -> Any:
        """Ask as the admin of the tenant."""
        with self.server.client(self.server.token(tenant=self.tenant)) as client:
            return data(client.request(method, path, json=body, **options), status)

    def post(self, body: bytes, headers: dict[str, str], path: str | None = None) -> httpx.Response:
        """Send as the sender does, without credentials."""
        with self.server.client() as client:
            return client.post(path or self.path, content=body, headers=headers)

    def send(self, payload: Any, event_id: str | None = None, **more: Any) -> httpx.Response:
        """Send in the form of Standard Webhooks."""
        body = json.dumps(payload).encode()
        return self.post(body, standard(self.secret, body, event_id or uuid4().hex, **more))

    def events(self, **wanted: Any) -> list[Json]:
        """Return the events of the source, newest first."""
        with self.server.client(self.server.token(tenant=self.tenant)) as client:
            listed = data(client.get("/api/webhook-events", params={"source_id": self.id, "limit": 200, **wanted}))
        return [dict(one) for one in listed]

    def ended(self, count: int) -> list[Json]:
        """Wait until so many events have ended; return all of them in the order in which they came."""

        def look() -> list[Json] | None:
            events = self.events()
            return events if sum(one["state"] != "received" for one in events) >= count else None

        return list(reversed(wait_for(look, f"the end of {count} events")))


def standard(secret: str, body: bytes, event_id: str, *, at: float | None = None, key: str | None = None) -> Json:
    """Sign with the library that the standard gives to senders."""
    moment = int(time.time() if at is None else at)
    signed_at = datetime.fromtimestamp(moment, UTC)
    signature = Webhook(key or secret).sign(event_id, signed_at, body.decode())
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(moment),
        "webhook-signature": signature,
        "content-type": "application/json",
    }


def plain(secret: str, body: bytes, *, at: float | None = None) -> Json:
    """Sign the time and the body, as a few lines of shell do."""
    moment = str(int(time.time() if at is None else at))
    mac = hmac.new(secret.encode(), moment.encode() + b"." + body, hashlib.sha256).hexdigest()
    return {"x-timestamp": moment, "x-signature": f"sha256={mac}", "content-type": "application/json"}


def base64_of(value: Any) -> str:
    """Return JSON in base64, as Pub/Sub carries it."""
    return base64.b64encode(json.dumps(value).encode()).decode()
