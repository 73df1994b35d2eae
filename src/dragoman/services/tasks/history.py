"""How a task came where it is: its steps and its attempts, read from the log of its runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dragoman.services.tasks.events import RefusedEvent, StatusEvent
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.shapes import AttemptOutcome, AttemptView, Json, Step
from dragoman.services.tasks.store_views import LoggedStep, RunRow

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


def steps_of(runs: Sequence[RunRow], logged: Sequence[LoggedStep], *, owner: str) -> list[Step]:
    """Return every step of every run, numbered through; without a name it was taken by its worker or by `owner`."""
    number = {run.task.id: run.run for run in runs}
    return [
        _step(step, place, run=number.get(step.task_id, 1), owner=owner) for place, step in enumerate(logged, start=1)
    ]


def _step(logged: LoggedStep, place: int, *, run: int, owner: str) -> Step:
    event = logged.event
    if isinstance(event, RefusedEvent):
        worker = attempt = None
    else:
        worker, attempt = event.worker, event.attempt
    return Step(
        **{"from": event.before},
        seq=place,
        to=event.to,
        at=logged.at,
        actor=event.by or (f"worker:{worker}" if worker is not None else owner),
        worker=worker,
        attempt=attempt,
        run=run,
        reason=event.reason,
        refused=isinstance(event, RefusedEvent),
    )


def attempts_of(runs: Sequence[RunRow], logged: Sequence[LoggedStep]) -> list[AttemptView]:
    """Return every attempt of every run, with its worker and its error."""
    number = {run.task.id: run.run for run in runs}
    attempts: list[AttemptView] = []
    current: _Open | None = None
    for step in logged:
        event = step.event
        if not isinstance(event, StatusEvent):
            continue
        if current is not None:
            outcome = _ENDINGS.get(event.to, AttemptOutcome.FAILED)
            error = event.error if outcome is not AttemptOutcome.LOST else None
            attempts.append(_view(current, step.at, outcome, error))
            current = None
        if event.to is State.IN_PROGRESS and event.attempt:
            current = _Open(event.attempt, number.get(step.task_id, 1), event.worker, step.at)
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
