"""Writing the trail: a record goes into the database with what it records, or not at all."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import orjson

from dragoman.context import Caller, current_request
from dragoman.infra.db import Database, Scope
from dragoman.services.audit.models import Outcome
from dragoman.services.audit.store import AuditStore


@dataclass(frozen=True, slots=True)
class Entry:
    """What the gate knows when an operation ends."""

    operation: str
    outcome: Outcome
    resource: str | None = None
    input_sha256: str | None = None
    policy: str | None = None
    code: str | None = None
    reason: str | None = None


class AuditTrail:
    """Adds records; sealing them is the sealer's work."""

    def __init__(
        self, store: AuditStore, db: Database, *, mac_key: bytes, new_id: Callable[[], UUID], wake: Callable[[], None]
    ) -> None:
        self._store = store
        self._db = db
        self._mac_key = mac_key
        self._new_id = new_id
        self._wake = wake

    async def add(self, scope: Scope, caller: Caller, entry: Entry) -> None:
        """Record it in the open unit of work; the sealer is woken once that commits."""
        record_id = self._new_id()
        body = encode(record_id, caller, entry)
        await self._store.add(scope, record_id, body, hmac.digest(self._mac_key, body, "sha256"))
        await self._db.after_commit(self._wake_sealer)

    async def _wake_sealer(self) -> None:
        self._wake()


def encode(record_id: UUID, caller: Caller, entry: Entry) -> bytes:
    """Canonical JSON (RFC 8785): for ASCII keys and no floats, sorted keys and no blanks are all it takes."""
    request = current_request()
    fields = {
        "v": 1,
        "id": str(record_id),
        "tenant": str(caller.tenant),
        "at": datetime.now(UTC).isoformat(timespec="microseconds"),
        "operation": entry.operation,
        "outcome": entry.outcome.value,
        "subject": caller.subject,
        "principal_type": caller.type.value,
        "roles": sorted(role.value for role in caller.roles),
        "credential": caller.credential,
        "door": request.door if request else "internal",
        "request_id": request.id if request else "",
        "correlation_id": (request.correlation_id or None) if request else None,
        "resource": entry.resource,
        "input_sha256": entry.input_sha256,
        "policy": entry.policy,
        "code": entry.code,
        "reason": entry.reason,
    }
    return orjson.dumps({key: value for key, value in fields.items() if value is not None}, option=orjson.OPT_SORT_KEYS)
