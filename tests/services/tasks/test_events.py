"""Events, and the rows of the log that hold them."""

from typing import Any

import orjson
import pytest

from dragoman.infra.db import document
from dragoman.services.tasks import events
from dragoman.services.tasks.events import (
    ActivityEvent,
    ArtifactEvent,
    Event,
    LogEvent,
    MessageEvent,
    ProgressEvent,
    RefusedEvent,
    StatusEvent,
)
from dragoman.services.tasks.lifecycle import InvalidTransition, State

SAID = {"id": "m", "role": "agent", "parts": [{"kind": "text", "text": "done"}]}
PIECE = {"id": "report", "name": "report", "parts": []}
# As rows were written before events had types of their own, and are written now.
ROWS: list[tuple[dict[str, Any], Event]] = [
    ({"kind": "status", "to": "requested"}, StatusEvent(None, State.REQUESTED)),
    (
        {"kind": "status", "from": "queued", "to": "in_progress", "attempt": 2, "worker": "w", "capability": "a@1"},
        StatusEvent(State.QUEUED, State.IN_PROGRESS, attempt=2, worker="w", capability="a@1"),
    ),
    (
        {"kind": "status", "from": "in_progress", "to": "input_required", "attempt": 1, "message": SAID, "auth": True},
        StatusEvent(State.IN_PROGRESS, State.INPUT_REQUIRED, attempt=1, message=SAID, auth=True),
    ),
    (
        {"kind": "status", "from": "queued", "to": "failed", "by": "ada", "reason": "late", "error": {"code": "LATE"}},
        StatusEvent(State.QUEUED, State.FAILED, by="ada", reason="late", error={"code": "LATE"}),
    ),
    (
        {"kind": "refused", "from": "succeeded", "to": "queued", "by": "ada", "reason": "no such transition"},
        RefusedEvent(State.SUCCEEDED, State.QUEUED, by="ada", reason="no such transition"),
    ),
    ({"kind": "message", "message": SAID}, MessageEvent(SAID)),
    ({"kind": "artifact", "artifact": PIECE, "last": True}, ArtifactEvent(PIECE)),
    ({"kind": "artifact", "artifact": PIECE, "last": False, "append": True}, ArtifactEvent(PIECE, True, False)),
    ({"kind": "progress", "text": "half", "percent": 50.0}, ProgressEvent("half", 50.0)),
    ({"kind": "progress", "text": "some", "percent": None}, ProgressEvent("some", None)),
    ({"kind": "log", "text": "look", "level": "info"}, LogEvent("look", "info")),
    ({"kind": "activity", "activity": "executing"}, ActivityEvent("executing")),
    ({"kind": "activity", "activity": "waiting", "tools": ["search"]}, ActivityEvent("waiting", ("search",))),
]


@pytest.mark.parametrize(("row", "event"), ROWS)
def test_rows_of_the_log_keep_their_shape(row: dict[str, Any], event: Event) -> None:
    """What an earlier release stored is read, and what is written is what it would have written."""
    assert events.decode(row) == event
    assert event.body() == row
    assert events.kind_of(event) == row["kind"]


def test_a_step_is_nothing_but_a_transition() -> None:
    with pytest.raises(ValueError, match="not a step"):
        events.decode_step({"kind": "log", "text": "look", "level": "info"})


def test_transitions_follow_on_each_other_and_are_those_of_the_lifecycle() -> None:
    begun = [*events.accepted(), StatusEvent(State.VALIDATED, State.IN_PROGRESS)]

    assert events.check_path(None, [*begun, LogEvent("look", "info")]) is State.IN_PROGRESS
    with pytest.raises(ValueError, match="no transition"):
        events.check_path(None, [*events.accepted(), StatusEvent(State.QUEUED, State.IN_PROGRESS)])
    with pytest.raises(InvalidTransition):
        events.check_path(State.SUCCEEDED, [StatusEvent(State.SUCCEEDED, State.QUEUED)])


def test_an_event_that_many_tasks_share_is_stored_as_any_other() -> None:
    event = events.shared(StatusEvent(State.VALIDATED, State.IN_PROGRESS, attempt=1))

    assert orjson.loads(document([event], other=events.encode)) == [event.body()]
