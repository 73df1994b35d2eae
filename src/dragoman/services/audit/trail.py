"""Writing the trail: a record goes into the database with what it records, or not at all."""

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, cast
from uuid import UUID

import orjson

from dragoman.context import Caller, current_request
from dragoman.infra.db import Database, Scope
from dragoman.services.audit.models import Detail, Outcome
from dragoman.services.audit.rows import Rows
from dragoman.services.audit.store import AuditStore, Line, Shown, rows

_LONGEST_COLUMN: Final = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known when an operation ends, or a step of a task.

    The details are words, whole numbers and lists of words. `rows` are the rows that were written along with it, as
    they must be from now on.
    """

    operation: str
    outcome: Outcome
    resource: str | None = None
    input_sha256: str | None = None
    policy: str | None = None
    code: str | None = None
    reason: str | None = None
    details: Mapping[str, Detail] | None = None
    rows: Rows | None = None


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
        "v": 4,
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
        "rows": entry.rows or None,
    }
    given = {key: value for key, value in fields.items() if value is not None}
    try:
        return orjson.dumps(given, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # half of a surrogate pair: no bytes exist for it, and a record must be written all the same
        return orjson.dumps(_whole(given), option=orjson.OPT_SORT_KEYS)


def shown(body: bytes) -> Shown:
    """What is kept beside a body, made from nothing but the body, so that anyone can compare.

    Raises:
        ValueError: this was never a body.
    """
    return shown_of(orjson.loads(body))


def shown_of(fields: Any) -> Shown:
    """The same from a body that was read already.

    Raises:
        ValueError: this was never a body.
    """
    try:
        return Shown(
            datetime.fromisoformat(fields["at"]),
            column(fields["operation"]),
            column(fields["outcome"]),
            column(fields["subject"]),
            *_found_by(fields.get("resource"), fields.get("details")),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an audit record: {error}") from error


def _seen(caller: Caller, entry: Entry, at: datetime, body: bytes) -> Shown:
    """The same without reading the body again, where it says just what it was given."""
    if caller.subject.isascii() and entry.operation.isascii():
        found_by = _found_by(entry.resource, entry.details)
        if all(text is None or text.isascii() for text in found_by):
            return Shown(at, column(entry.operation), entry.outcome.value, column(caller.subject), *found_by)
    return shown(body)


def _found_by(resource: str | None, details: Mapping[str, Detail] | None) -> tuple[str | None, str | None, str | None]:
    """Return the resource of a record, the action that it is a step of, and the id of what that is about."""
    action = about = None
    if details is not None:
        action, about = details.get("action"), details.get("resource")
        action = column(action) if isinstance(action, str) else None
        about = column(about.partition("/")[2]) or None if isinstance(about, str) else None
    return column(resource) if resource is not None else None, action, about


def column(text: str) -> str:
    """Return a text as PostgreSQL can keep and index it: without NUL, and not longer than anyone would look for."""
    return text.replace("\0", "\ufffd")[:_LONGEST_COLUMN]


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in cast("dict[str, Any]", value).items()}
    return [_whole(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value
