"""What tests of approvals arrange again and again: people of a tenant, and a request that they decide."""

from typing import Any

import httpx

from tests.backstage import sql
from tests.doors.rest.calling import data
from tests.harness import Server

# No worker performs it: nothing is known of its input and of its resource beyond what is said here.
NDA: dict[str, Any] = {
    "action": "signature.witness",
    "resource": {"type": "deed", "id": "nda-1", "version": "3"},
    "matter_id": "matter-7",
    "input": {"envelope_id": "env-1"},
}


class Office:
    """The people and programs of one tenant, each with a client of their own."""

    def __init__(self, server: Server, tenant: str, *, issuer: Server | None = None) -> None:
        self.server = server
        self._issuer = issuer or server
        self.tenant = tenant
        self._clients: dict[tuple[str, str], httpx.Client] = {}

    def person(self, name: str, role: str = "operator") -> httpx.Client:
        """Somebody with a token."""
        if (name, role) not in self._clients:
            token = self._issuer.token(role=role, tenant=self.tenant, user=name)
            self._clients[name, role] = self.server.client(token)
        return self._clients[name, role]

    def program(self, name: str, role: str = "operator") -> httpx.Client:
        """A program with a key."""
        made = data(self.person("root", "org_admin").post("/api/keys", json={"name": name, "role": role}), 201)
        return self._clients.setdefault((name, "key"), self.server.client(made["secret"]))

    def ask(self, name: str = "ann", role: str = "operator", **changes: Any) -> dict[str, Any]:
        """A request of hers."""
        return data(self.person(name, role).post("/api/approvals", json={**NDA, **changes}), 201)

    def show(self, approval: dict[str, Any]) -> dict[str, Any]:
        """How it stands now."""
        return data(self.person("root", "org_admin").get(f"/api/approvals/{approval['approval_id']}"))

    def end_time_of(self, approval: dict[str, Any]) -> None:
        """Let its time be over."""
        statement = "UPDATE approvals SET expires_at = now() - interval '1 second' WHERE id = $1::text::uuid"
        sql(self.server, statement, approval["approval_id"])

    def close(self) -> None:
        """Hang up."""
        for client in self._clients.values():
            client.close()


def decide(who: httpx.Client, approval: dict[str, Any], decision: str = "approve", **given: Any) -> httpx.Response:
    """What one says."""
    return who.post(f"/api/approvals/{approval['approval_id']}/decide", json={"decision": decision, **given})


def accept_policy(
    office: Office, policy_id: str, *, constraints: list[dict[str, Any]] | None = None, **metadata: Any
) -> str:
    """A policy in force from now on: its commit."""
    admin = office.person("root", "org_admin")
    item = {"id": policy_id, "type": "policy", "title": policy_id, "content": "As agreed.", "metadata": metadata,
            "constraints": constraints or []}  # fmt: skip
    data(admin.post("/api/knowledge/propose", json=item), 201)
    return data(admin.post(f"/api/knowledge/{policy_id}/accept", json={}))["commit"]
