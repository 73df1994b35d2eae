"""What tests of memory arrange again and again: somebody who remembers over REST."""

from typing import Any

import httpx

from tests.harness import Server, wait_for
from tests.tenants import done, new_tenant, query


class Rememberer:
    """One caller."""

    def __init__(self, server: Server, **who: Any) -> None:
        self.server = server
        self.http = server.client(server.token(**who))

    def add(self, content: str, **fields: Any) -> str:
        """The id of a new memory."""
        return done(self.http.post("/api/memories", json={"content": content, **fields}))["memory_id"]

    def search(self, question: str, **fields: Any) -> dict[str, Any]:
        """All that a search answers."""
        return done(self.http.post("/api/memories/search", json={"query": question, **fields}))

    def contents(self, question: str, **fields: Any) -> list[str]:
        """What was found, best first."""
        return [hit["content"] for hit in self.search(question, **fields)["results"]]

    def refused(self, path: str, body: Any) -> dict[str, Any]:
        """The problem of a call that must fail."""
        return problem(self.http.post(path, json=body))

    def wait_for_meaning(self) -> None:
        """Until nothing waits for its vector."""
        wait_for(lambda: not query(self.server, "SELECT 1 FROM memory_pending LIMIT 1"), "the vectors")


def problem(response: httpx.Response) -> dict[str, Any]:
    """The problem of a response that must be one."""
    assert response.is_client_error, response.text
    return response.json()


def somebody(server: Server, *, user: str = "ada", role: str = "operator", tenant: str | None = None) -> Rememberer:
    """In a tenant of their own unless they share one."""
    return Rememberer(server, user=user, role=role, tenant=tenant or new_tenant(server))
