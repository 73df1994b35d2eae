"""Runs traces through doors: each is held against what it must become, and the doors against each other."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from dragoman.parity.doors import Door
from dragoman.parity.traces import Json, Step, Trace, TraceError, differences, fill

_RESTS: Final = ("succeeded", "failed", "rejected", "cancelled", "dead_letter", "input_required")
_LONGEST_S: Final = 60.0
_LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Finding:
    """What a trace came to on a door: nothing wrong, or every difference in words."""

    trace: str
    door: str
    wrong: tuple[str, ...]


@dataclass(slots=True)
class Suite:
    """What the suite needs to know of the server; `audit` gives the records of a task, oldest first."""

    doors: Sequence[Door]
    actor: str
    actor_type: str
    audit: Callable[[str], list[Json]]
    seen: dict[str, Json] = field(default_factory=dict[str, Json])


def run_suite(suite: Suite, traces: Sequence[Trace]) -> Iterator[Finding]:
    """Every trace on every door, in turn."""
    for trace in traces:
        shared = uuid4().hex
        known: tuple[str, Json] | None = None
        for door in suite.doors:
            key = f"parity-{shared}" if trace.shared else f"parity-{uuid4().hex}"
            try:
                wrong, story = _run(suite, door, trace, key)
            except (TraceError, LookupError, TypeError) as error:
                yield Finding(trace.name, door.name, (f"{type(error).__name__}: {error}",))
                continue
            if known is None:
                known = door.name, story
            elif known[1] != story:
                wrong += [f"unlike {known[0]}: {line}" for line in differences(known[1], story)]
            yield Finding(trace.name, door.name, tuple(wrong))


def _run(suite: Suite, door: Door, trace: Trace, key: str) -> tuple[list[str], Json]:
    values = {"actor": suite.actor, "actor_type": suite.actor_type, "key": key}
    wrong: list[str] = []
    for number, step in enumerate(trace.steps, start=1):
        answer = _call(door, step, values)
        wrong += [f"step {number}, {step.call}: {line}" for line in differences(fill(step.expect, values), answer)]
        for name, place in step.keep.items():
            values[name] = str(_at(answer, place))
    if "task_id" not in values:
        return wrong, {"wrong": len(wrong)}
    view = _rested(door, values["task_id"])
    story = _story(view, suite.audit(values["task_id"]))
    wrong += [f"task: {line}" for line in differences(trace.task, story)]
    if trace.shared:
        story["task_id"] = values["task_id"]
    return wrong, story


def _call(door: Door, step: Step, values: Mapping[str, str]) -> Json:
    given = fill(step.arguments, values)
    answer = door.call(step.call, given)
    ends = time.monotonic() + _LONGEST_S
    while step.until and answer.get("state") not in step.until and time.monotonic() < ends:
        time.sleep(_LOOK_S)
        answer = door.call(step.call, given)
    return answer


def _rested(door: Door, task_id: str) -> Json:
    return _call(door, Step("task_status", {"task_id": task_id}, until=_RESTS), {})


def _story(view: Json, records: list[Json]) -> Json:
    """What must be the same on every door: all but ids, times and how the caller came in."""
    return {
        "state": view.get("state"),
        "transitions": [
            [step["from"], step["to"]] if not step["refused"] else [step["from"], step["to"], "refused"]
            for step in view.get("history", ())
        ],
        "workers": [one["worker"] for one in view.get("attempts", ())],
        "outcomes": [_ended(one) for one in view.get("attempts", ())],
        "error": (view.get("error") or {}).get("code"),
        "result": sorted(view.get("result") or {}),
        "evidence": [one["kind"] for one in view.get("evidence", ())],
        "audit": [f"{one['operation']} {one['outcome']}" for one in records],
    }


def _ended(attempt: Json) -> str:
    error = attempt.get("error")
    return f"{attempt['outcome']} {error['code']}" if error else str(attempt["outcome"])


def _at(answer: Json, place: str) -> Any:
    found: Any = answer
    for part in place.split("."):
        try:
            found = found[int(part)] if part.isdigit() else found[part]
        except (LookupError, TypeError):
            raise TraceError(f"there is no {place} in {json.dumps(answer)[:300]}") from None
    return found
