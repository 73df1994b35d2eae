"""Envelopes, and what becomes of them, through every door alike."""

from typing import Any
from uuid import uuid4


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
