"""Writing the trail: a record goes into the database with what it records, or not at all."""

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import orjson

from dragoman.context import Caller, current_request
from dragoman.infra.db import Database, Scope
from dragoman.services.audit.models import Outcome
from dragoman.services.audit.store import AuditStore, Line, Shown, rows


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known when an operation ends, or a step of a task; the details are words and whole numbers."""

    operation: str
    outcome: Outcome
    resource: str | None = None
    input_sha256: str | None = None
    policy: str | None = None
    code: str | None = None
    reason: str | None = None
    details: Mapping[str, str | int] | None = None


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
        _, record_id, seen, body, mac = self.write(caller, entry)
        await self._store.add(scope, record_id, seen, body, mac)
        await self._db.after_commit(self._wake_sealer)

    def write(self, caller: Caller, entry: Entry) -> Line:
        """A record of what this request does, to be added with others when it is done."""
        record_id, at = self._new_id(), datetime.now(UTC)
        body = encode(record_id, caller, entry, at=at)
        return (
            caller.tenant,
            record_id,
            _seen(caller, entry, at, body),
            body,
            hmac.digest(self._mac_key, body, "sha256"),
        )

    async def add_all(self, scope: Scope, lines: Sequence[Line]) -> None:
        """Record many at once, of whichever tenants, in the open unit of work of a core that sees them all."""
        await self._store.add_all(scope, lines)
        await self._db.after_commit(self._wake_sealer)

    def rows(self, lines: Sequence[Line], places: Sequence[int] | None = None) -> str:
        """Return records as the parameter of a statement that adds them with what they record; then call `added`."""
        return rows(lines, places)

    def added(self) -> None:
        """Records were committed by a statement of somebody else's."""
        self._wake()

    async def _wake_sealer(self) -> None:
        self._wake()


def encode(record_id: UUID, caller: Caller, entry: Entry, *, at: datetime | None = None) -> bytes:
    """Canonical JSON (RFC 8785): for ASCII keys and no floats, sorted keys and no blanks are all it takes."""
    request = current_request()
    fields = {
        "v": 1,
        "id": str(record_id),
        "tenant": str(caller.tenant),
        "at": (at or datetime.now(UTC)).isoformat(timespec="microseconds"),
        "operation": entry.operation,
        "outcome": entry.outcome,
        "subject": caller.subject,
        "principal_type": caller.type,
        "roles": sorted(caller.roles),
        "credential": caller.credential,
        "door": request.door if request else "internal",
        "request_id": request.id if request else "",
        "correlation_id": (request.correlation_id or None) if request else None,
        "resource": entry.resource,
        "input_sha256": entry.input_sha256,
        "policy": entry.policy,
        "code": entry.code,
        "reason": entry.reason,
        "details": dict(entry.details) if entry.details else None,
    }
    given = {key: value for key, value in fields.items() if value is not None}
    try:
        return orjson.dumps(given, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # half of a surrogate pair: no bytes exist for it, and a record must be written all the same
        whole = {key: _whole(value) if isinstance(value, str) else value for key, value in given.items()}
        return orjson.dumps(whole, option=orjson.OPT_SORT_KEYS)


def shown(body: bytes) -> Shown:
    """What is kept beside a body, made from nothing but the body, so that anyone can compare.

    Raises:
        ValueError: this was never a body.
    """
    fields = orjson.loads(body)
    try:
        return Shown(
            datetime.fromisoformat(fields["at"]),
            column(fields["operation"]),
            column(fields["outcome"]),
            column(fields["subject"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an audit record: {error}") from error


def _seen(caller: Caller, entry: Entry, at: datetime, body: bytes) -> Shown:
    """The same without reading the body again, where it says just what it was given."""
    if caller.subject.isascii() and entry.operation.isascii():
        return Shown(at, column(entry.operation), entry.outcome.value, column(caller.subject))
    return shown(body)


def column(text: str) -> str:
    """As PostgreSQL can keep it: its text has no NUL."""
    return text.replace("\0", "\ufffd")


def _whole(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
