"""The events that the log of a task keeps: their types, and the only code that knows how they are stored.

Each type is one kind of event, and its constructor the only way to make one. Readers match on the type. `body` and
`decode` are the ways between an event and the JSON object with a `kind` that a row of the log holds. A `StatusEvent` is
one transition of the lifecycle; the others change only what followers see. `check_path` checks the
transitions of a step against the lifecycle table.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, NamedTuple, Self
from uuid import UUID

import orjson

from dragoman import kit
from dragoman.services.tasks.lifecycle import State, check_transition

Json = dict[str, Any]
Kind = Literal["status", "message", "artifact", "progress", "log", "activity", "refused"]
# The reason that stands in the log when a process goes on with what another one left.
TAKEN_OVER: Final = "taken over"


class StatusEvent(NamedTuple):
    """A transition of the lifecycle; the first one of a task has no state before it."""

    before: State | None
    to: State
    by: str | None = None
    reason: str | None = None
    attempt: int | None = None
    worker: str | None = None
    capability: str | None = None
    message: Json | None = None
    error: Json | None = None
    auth: bool = False

    @property
    def voids_drafts(self) -> bool:
        """Check whether the work of an attempt is done again, by another process or later."""
        return self.reason == TAKEN_OVER or (self.before is State.IN_PROGRESS and self.to is State.QUEUED)

    def assigned(self, *, worker: str, capability: str) -> Self:
        """Return the transition with the worker that performs the action."""
        return self._replace(worker=worker, capability=capability)

    def body(self) -> Json:
        """Return it as a row of the log holds it; details that are None are left out."""
        # Unpacked at once: most events are of this type, and attributes one by one take longer.
        before, to, by, reason, attempt, worker, capability, message, error, auth = self
        body: Json = {"kind": "status", "to": to}
        if before is not None:
            body["from"] = before
        if by is not None:
            body["by"] = by
        if reason is not None:
            body["reason"] = reason
        if attempt is not None:
            body["attempt"] = attempt
        if worker is not None:
            body["worker"] = worker
        if capability is not None:
            body["capability"] = capability
        if message is not None:
            body["message"] = message
        if error is not None:
            body["error"] = error
        if auth:
            body["auth"] = True
        return body

    @classmethod
    def of(cls, body: Json) -> Self:
        """Return the event of a row."""
        before, find = body.get("from"), body.get
        return cls(
            State(before) if before is not None else None,
            State(body["to"]),
            find("by"),
            find("reason"),
            find("attempt"),
            find("worker"),
            find("capability"),
            find("message"),
            find("error"),
            bool(find("auth")),
        )


class RefusedEvent(NamedTuple):
    """A transition that was asked for and not made."""

    before: State
    to: State
    by: str
    reason: str

    def body(self) -> Json:
        """Return it as a row of the log holds it."""
        return {"kind": "refused", "from": self.before, "to": self.to, "by": self.by, "reason": self.reason}

    @classmethod
    def of(cls, body: Json) -> Self:
        """Return the event of a row."""
        return cls(State(body["from"]), State(body["to"]), body["by"], body["reason"])


class MessageEvent(NamedTuple):
    """A message to the task."""

    message: Json

    def body(self) -> Json:
        """Return it as a row of the log holds it."""
        return {"kind": "message", "message": self.message}

    @classmethod
    def of(cls, body: Json) -> Self:
        """Return the event of a row."""
        return cls(body["message"])


class ArtifactEvent(NamedTuple):
    """An artifact: whole, or with `append` a further piece of one; `last` when no piece follows."""

    artifact: Json
    append: bool = False
    last: bool = True

    def showing(self, artifact: Json) -> Self:
        """Return the event with another content of the artifact."""
        return self._replace(artifact=artifact)

    def body(self) -> Json:
        """Return it as a row of the log holds it."""
        body: Json = {"kind": "artifact", "artifact": self.artifact, "last": self.last}
        return {**body, "append": True} if self.append else body

    @classmethod
    def of(cls, body: Json) -> Self:
        """Return the event of a row."""
        return cls(body["artifact"], bool(body.get("append")), bool(body.get("last")))


class ProgressEvent(NamedTuple):
    """How far the work is."""

    text: str
    percent: float | None

    def body(self) -> Json:
        """Return it as a row of the log holds it."""
        return {"kind": "progress", "text": self.text, "percent": self.percent}

    @classmethod
    def of(cls, body: Json) -> Self:
        """Return the event of a row."""
        return cls(body["text"], body.get("percent"))


class LogEvent(NamedTuple):
    """A log line of a skill."""

    text: str
    level: kit.LogLevel

    def body(self) -> Json:
        """Return it as a row of the log holds it."""
        return {"kind": "log", "text": self.text, "level": self.level}

    @classmethod
    def of(cls, body: Json) -> Self:
        """Return the event of a row."""
        return cls(body["text"], body["level"])


class ActivityEvent(NamedTuple):
    """What the task is busy with: executing, or waiting for these tools."""

    activity: str
    tools: tuple[str, ...] = ()

    def body(self) -> Json:
        """Return it as a row of the log holds it."""
        body: Json = {"kind": "activity", "activity": self.activity}
        return {**body, "tools": list(self.tools)} if self.tools else body

    @classmethod
    def of(cls, body: Json) -> Self:
        """Return the event of a row."""
        return cls(body["activity"], tuple(body.get("tools", ())))


Event = StatusEvent | RefusedEvent | MessageEvent | ArtifactEvent | ProgressEvent | LogEvent | ActivityEvent
# An event, or one that is encoded already: of that, only the store asks what it is.
Loggable = Event | orjson.Fragment
_TYPES: Final = (StatusEvent, ArtifactEvent, MessageEvent, ProgressEvent, LogEvent, ActivityEvent, RefusedEvent)
_KINDS: Final[dict[type[Event], Kind]] = {
    StatusEvent: "status",
    RefusedEvent: "refused",
    MessageEvent: "message",
    ArtifactEvent: "artifact",
    ProgressEvent: "progress",
    LogEvent: "log",
    ActivityEvent: "activity",
}
_BY_KIND: Final[dict[str, type[Event]]] = {kind: event_type for event_type, kind in _KINDS.items()}


# The JSON of events that all tasks share, by the identity of the event, which is kept here with it.
_PREPARED: Final[dict[int, tuple[Event, orjson.Fragment]]] = {}


def kind_of(event: Event) -> Kind:
    """Return the name of an event's type, as rows and the list of events call it."""
    return _KINDS[type(event)]


def encode(value: object) -> Any:
    """Return what JSON has for a value that it does not know: the body of an event, the text of anything else."""
    if (prepared := _PREPARED.get(id(value))) is not None:
        return prepared[1]
    return value.body() if isinstance(value, _TYPES) else str(value)


def shared(event: StatusEvent) -> StatusEvent:
    """Return an event that is a constant, and have its JSON made once."""
    _PREPARED[id(event)] = event, orjson.Fragment(encoded(event))
    return event


def encoded(event: Event) -> bytes:
    """Return an event as the JSON text that is stored."""
    return orjson.dumps(event.body(), default=str)


def decode(body: Json) -> Event:
    """Return the event of a row of the log."""
    return _BY_KIND[body["kind"]].of(body)


def decode_step(body: Json) -> StatusEvent | RefusedEvent:
    """Return the transition, made or refused, of a row of the log.

    Raises:
        ValueError: the row holds an event of another kind.
    """
    event = decode(body)
    if isinstance(event, StatusEvent | RefusedEvent):
        return event
    raise ValueError(f"an event of the kind {kind_of(event)!r} is not a step")


def accepted(by: str | None = None) -> list[StatusEvent]:
    """Return the first two transitions of every task."""
    return [StatusEvent(None, State.REQUESTED, by=by), StatusEvent(State.REQUESTED, State.VALIDATED)]


def opened(before: State, attempt: int, *, last: int, reason: str | None = None) -> tuple[StatusEvent, ...]:
    """Return the transitions with which an attempt begins; `last` is the last attempt that the log has.

    An attempt in between was lost before it wrote anything: the log gets it now, as one that another took over.
    """
    lost = [StatusEvent(State.IN_PROGRESS, State.IN_PROGRESS, attempt=number) for number in range(last + 1, attempt)]
    opening = StatusEvent(before, State.IN_PROGRESS, attempt=attempt, reason=reason)
    if not lost:
        return (opening,)
    lost[0] = lost[0]._replace(before=before, reason=reason)
    return (*lost, opening._replace(before=State.IN_PROGRESS, reason=TAKEN_OVER))


def said_by_agent(new_id: Callable[[], UUID], parts: list[Json]) -> Json:
    """Return a message of the agent."""
    return {"id": str(new_id()), "role": "agent", "parts": parts}


def check_path(before: State | None, events: Iterable[Loggable]) -> State | None:
    """Return the state after these events, each transition of which the lifecycle must allow.

    A task that another process goes on with stays in progress: that is said in the log, and is not a transition.

    Raises:
        InvalidTransition: the lifecycle does not have one of them.
        ValueError: they do not follow on each other.
    """
    current = before
    for event in events:
        if not isinstance(event, StatusEvent):
            continue
        if event.before is not current:
            raise ValueError(f"a task that is {current} has no transition from {event.before}")
        taken_over = current is event.to is State.IN_PROGRESS
        if current is not None and not taken_over:
            check_transition(current, event.to)
        current = event.to
    return current
