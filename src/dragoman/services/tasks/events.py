"""What happens to a task, as its log keeps it. These functions are the only ones that make events.

Every event is a JSON object with a `kind`. A `status` is one transition of the lifecycle; the other kinds change
nothing but what followers see. `check_path` holds the transitions of a step to the lifecycle table.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from uuid import UUID

import orjson

from dragoman.services.tasks.lifecycle import State, check_transition

Json = dict[str, Any]
# The reason that stands in the log when a process goes on with what another one left.
TAKEN_OVER: Final = "taken over"


# As an object, or as the JSON text that it will be stored as.
Event = Json | orjson.Fragment


def status(before: State | None, to: State, **details: Any) -> Json:
    """Make a transition; details that are None are left out."""
    event: Json = {"kind": "status"} | ({"from": before.value} if before else {}) | {"to": to.value}
    for name, value in details.items():
        if value is not None:
            event[name] = value
    return event


def accepted(by: str | None = None) -> list[Json]:
    """Make the first two transitions of every task."""
    return [
        status(None, State.REQUESTED, by=by),
        {"kind": "status", "from": "requested", "to": "validated"},
    ]


def assigned(opening: Json, *, worker: str, capability: str) -> Json:
    """Return the transition to in progress with the worker that performs the action."""
    return opening | {"worker": worker, "capability": capability}


def message(content: Json) -> Json:
    """Make the event of a message to the task."""
    return {"kind": "message", "message": content}


def artifact(content: Json, *, append: bool = False, last: bool = True) -> Json:
    """Make the event of an artifact, whole or a further piece of one."""
    event: Json = {"kind": "artifact", "artifact": content, "last": last}
    return event | {"append": True} if append else event


def progress(text: str, percent: float | None) -> Json:
    """Make the event of words on how far the work is."""
    return {"kind": "progress", "text": text, "percent": percent}


def log(text: str, level: str) -> Json:
    """Make the event of a log line of a skill."""
    return {"kind": "log", "text": text, "level": level}


def activity(name: str, tools: Sequence[str]) -> Json:
    """Make the event of what a task is busy with."""
    event: Json = {"kind": "activity", "activity": name}
    return event | {"tools": list(tools)} if tools else event


def refused(before: State, to: State, *, by: str, reason: str) -> Json:
    """Make the event of a transition that was asked for and not made."""
    return {"kind": "refused", "from": before.value, "to": to.value, "by": by, "reason": reason}


def said_by_agent(new_id: Callable[[], UUID], parts: list[Json]) -> Json:
    """Make a message of the agent."""
    return {"id": str(new_id()), "role": "agent", "parts": parts}


def check_path(before: State | None, events: Iterable[Event]) -> State | None:
    """Return the state after these events, each transition of which the lifecycle must allow.

    A task that another process goes on with stays in progress: that is said in the log, and is not a transition.

    Raises:
        InvalidTransition: the lifecycle does not have one of them.
        ValueError: they do not follow on each other.
    """
    # A state is its own text, and is made of it once: this is done for every step of every task.
    current: str | None = before
    for event in events:
        if not isinstance(event, dict) or event["kind"] != "status":
            continue
        came_from, to = event.get("from"), event["to"]
        if came_from != current:
            raise ValueError(f"a task that is {current} has no transition from {came_from}")
        taken_over = came_from == to == "in_progress"
        if came_from is not None and not taken_over:
            check_transition(came_from, to)
        current = to
    return State(current) if current is not None else None
