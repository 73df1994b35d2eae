"""What every test of the REST door needs: tenants of its own, and a close look at each answer."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx

from tests.backstage import sql
from tests.harness import Server

PROBLEM = {"type", "title", "status", "detail", "instance", "code", "retryable", "requestId"}


def fresh(prefix: str = "t") -> str:
    """A name that no other test uses."""
    return f"{prefix}-{uuid4().hex[:12]}"


def new_tenant(server: Server, **fields: Any) -> dict[str, Any]:
    """A tenant of the test's own."""
    with server.admin() as admin:
        return data(admin.post("/api/tenant", json={"name": "Acme", "slug": fresh(), **fields}), 201)


def org_admin(server: Server, tenant: str, user: str = "admin") -> httpx.Client:
    """One who runs that tenant and nothing else."""
    return server.client(server.token(role="org_admin", tenant=tenant, user=user))


def data(response: httpx.Response, status: int = 200) -> Any:
    """What a success holds, once its envelope is found to be right."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"success", "data", "meta"}
    assert body["success"] is True
    assert body["meta"]["requestId"] == response.headers["x-request-id"]
    at = datetime.fromisoformat(body["meta"]["timestamp"])
    assert at.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - at) < timedelta(minutes=1)
    return body["data"]


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem document, once it is found to be one and to give nothing away."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert set(body) >= PROBLEM
    assert set(body) <= PROBLEM | {"errors", "details"}
    assert (body["status"], body["code"], body["type"]) == (status, code, f"urn:dragoman:error:{code}")
    assert body["requestId"] == response.headers["x-request-id"]
    assert body["requestId"] in body["instance"]
    for secret in (
        "Traceback",
        "asyncpg",
        "pydantic",
        "postgres",
        ".py",
        "SELECT",
        "INSERT",
        "/work/",
        "site-packages",
    ):
        assert secret not in response.text
    return body


def fields(response: httpx.Response) -> list[str]:
    """The fields that a refusal names."""
    return [error["field"] for error in problem(response, 400, "INVALID_PARAMS")["errors"]]


def counts(server: Server) -> dict[str, int]:
    """How many rows there are of everything that a request may leave; the trail of refusals is not among it."""
    tables = ("tenants", "users", "api_keys", "revocations", "idempotency_keys")
    union = " UNION ALL ".join(f"SELECT '{table}' AS name, count(*) AS n FROM {table}" for table in tables)
    return {row["name"]: row["n"] for row in sql(server, union)}
