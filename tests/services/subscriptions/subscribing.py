"""A tenant whose events go to receivers of the test."""

from typing import Any

import httpx
from standardwebhooks import Webhook

from tests.backstage import add_tenant
from tests.doors.rest.calling import data
from tests.harness import Server, wait_for
from tests.receiver import Notification, Receiver
from tests.services.tasks.envelopes import envelope, submit

Json = dict[str, Any]
# The receivers of tests are on this machine, and what is tried again is tried again soon.
SOON = {"DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1", "DRAGOMAN_SUBSCRIPTIONS__RETRY_BASE_S": "0.02"}


class Tenant:
    """A tenant of the test's own, with a client for each of its people."""

    def __init__(self, server: Server, slug: str | None = None) -> None:
        self.server = server
        self.slug = slug or add_tenant(server)
        self._clients: dict[tuple[str, str], httpx.Client] = {}

    def person(self, name: str = "admin", role: str = "org_admin") -> httpx.Client:
        """Somebody with a token."""
        if (name, role) not in self._clients:
            token = self.server.token(role=role, tenant=self.slug, user=name)
            self._clients[name, role] = self.server.client(token)
        return self._clients[name, role]

    def ask(self, method: str, path: str, body: Json | None = None, status: int = 200) -> Any:
        """Ask as the admin."""
        return data(self.person().request(method, f"/api/subscriptions{path}", json=body), status)

    def subscribe(self, receiver: Receiver, *events: str) -> Json:
        """Let a receiver be told of these events, of all without any."""
        return self.ask("POST", "", {"url": receiver.url, "events": list(events) or ["*"]}, 201)

    def get(self, subscription: Json) -> Json:
        """The subscription as it is now."""
        return self.ask("GET", f"/{subscription['id']}")

    def deliveries(self, subscription: Json, **filters: str) -> list[Json]:
        """Its deliveries, newest first."""
        query = "&".join(f"{name}={value}" for name, value in filters.items())
        return self.ask("GET", f"/{subscription['id']}/deliveries?{query}")

    def delivery(self, subscription: Json, **filters: str) -> Json:
        """The newest of them, with its attempts, once there is one."""
        found = wait_for(lambda: self.deliveries(subscription, **filters), f"a delivery with {filters}")
        return data(self.person().get(f"/api/deliveries/{found[0]['id']}"))

    def hand_over(self, action: str = "count.nothing", name: str = "admin", **fields: Any) -> Json:
        """Hand a task over."""
        return submit(self.person(name), envelope(action, actor={"id": name, "type": "human"}, **fields))

    def close(self) -> None:
        """Hang up."""
        for client in self._clients.values():
            client.close()


def verified(notification: Notification, secret: str) -> Json:
    """What a notification says, once its signature is found to be right by the official library."""
    Webhook(secret).verify(notification.body, notification.headers)
    return notification.json
