"""How a task came where it is: its steps and its attempts, read from the log of its runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.shapes import AttemptOutcome, AttemptView, Json, Step
from dragoman.services.tasks.store_views import RunRow

_ENDINGS = {
    State.SUCCEEDED: AttemptOutcome.SUCCEEDED,
    State.INPUT_REQUIRED: AttemptOutcome.PARKED,
    State.CANCELLED: AttemptOutcome.CANCELLED,
    State.IN_PROGRESS: AttemptOutcome.LOST,
}


@dataclass(slots=True)
class _Open:
    attempt: int
    run: int
    worker: str | None
    started_at: datetime


def steps_of(runs: Sequence[RunRow], rows: Iterable[Any], *, owner: str) -> list[Step]:
    """Every step of every run, numbered through."""
    number = {run.task.id: run.run for run in runs}
    steps: list[Step] = []
    for place, row in enumerate(rows, start=1):
        body: Json = row["body"]
        steps.append(
            Step(
                **{"from": State(body["from"]) if "from" in body else None},
                seq=place,
                to=State(body["to"]),
                at=row["at"],
                actor=body.get("by") or (f"worker:{body['worker']}" if "worker" in body else owner),
                worker=body.get("worker"),
                attempt=body.get("attempt"),
                run=number.get(row["task_id"], 1),
                reason=body.get("reason"),
                refused=body["kind"] == "refused",
            )
        )
    return steps


def attempts_of(runs: Sequence[RunRow], rows: Iterable[Any]) -> list[AttemptView]:
    """Every attempt of every run, with its worker and its error."""
    number = {run.task.id: run.run for run in runs}
    attempts: list[AttemptView] = []
    current: _Open | None = None
    for row in rows:
        body: Json = row["body"]
        if body["kind"] != "status":
            continue
        to = State(body["to"])
        if current is not None:
            outcome = _ENDINGS.get(to, AttemptOutcome.FAILED)
            error = body.get("error") if outcome is not AttemptOutcome.LOST else None
            attempts.append(_view(current, row["at"], outcome, error))
            current = None
        if to is State.IN_PROGRESS and body.get("attempt"):
            current = _Open(body["attempt"], number.get(row["task_id"], 1), body.get("worker"), row["at"])
    if current is not None:
        attempts.append(_view(current, None, AttemptOutcome.RUNNING, None))
    return attempts


def _view(begun: _Open, ended_at: datetime | None, outcome: AttemptOutcome, error: Json | None) -> AttemptView:
    return AttemptView(
        attempt=begun.attempt,
        run=begun.run,
        worker=begun.worker,
        started_at=begun.started_at,
        ended_at=ended_at,
        outcome=outcome,
        error=error,
    )
