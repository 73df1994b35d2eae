"""Envelopes, and what becomes of them, through every door alike."""

from typing import Any
from uuid import uuid4

import httpx

from tests.harness import wait_for

ENDED = ("succeeded", "failed", "rejected", "cancelled", "dead_letter")


def envelope(action: str = "count.nothing", given: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A whole envelope; fields of the same name replace what stands there."""
    return {
        "envelope_version": "1",
        "actor": {"id": "admin", "type": "human"},
        "action": action,
        "resource": {"type": "counter", "id": "c-1"},
        "matter": {"id": "matter-1"},
        "idempotency_key": uuid4().hex,
        "request": {"correlation_id": "corr-1"},
        "input": given or {},
        **fields,
    }


def submit(client: httpx.Client, given: dict[str, Any]) -> dict[str, Any]:
    """Hand it over by REST."""
    answer = client.post("/api/tasks", json=given)
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


def status(client: httpx.Client, task_id: str) -> dict[str, Any]:
    """How the task stands."""
    answer = client.get(f"/api/tasks/{task_id}")
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def ended(client: httpx.Client, task_id: str, *, within: tuple[str, ...] = ENDED) -> dict[str, Any]:
    """How the task stands once it is in one of these states."""
    return wait_for(lambda: (found := status(client, task_id))["state"] in within and found, "the end of the task")
