"""A message that calls a tool which is done as a whole: its task is written once, with its whole history.

A read leaves nothing behind. A write that is one transaction, with its task as the key, has happened once or not at
all, whoever tries it. So until the call has ended it needs no lease, no fence and no ledger. A call that lasts longer
than a moment, that tells how far it is, or whose sender has left becomes a turn like any other: the turn goes on with
the work as it stands.
"""

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime

from dragoman.context import Caller
from dragoman.services.tasks import events
from dragoman.services.tasks.identity import UNRECORDED
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Json, Task, ToolCall
from dragoman.services.tasks.turns.execution import Outcome
from dragoman.services.tasks.turns.records import begun_record
from dragoman.services.tasks.turns.run import (
    Turn,
    TurnDependencies,
    TurnRun,
    ended_within,
    opening_events,
    outcome_of,
    turn_birth,
)


class DirectCall:
    """One call, from the message to the stored task."""

    __slots__ = ("_call", "_caller", "_message", "_on", "_run", "_skill", "_started_s", "_task", "_work", "_writing")

    _work: "asyncio.Task[Outcome]"

    def __init__(
        self, dependencies: TurnDependencies, task: Task, caller: Caller, message: Json, call: ToolCall
    ) -> None:
        self._on = dependencies
        self._task = task
        self._caller = caller
        self._message = message
        self._call = call
        self._skill = dependencies.executor.skill_of(call, task.skill)
        self._started_s = time.time()
        self._run: TurnRun | None = None
        self._writing = False

    async def run(self, moment_s: float) -> Task | TurnRun:
        """Return the task when it has ended and is stored; else the turn that the call has become.

        Raises:
            RateLimited, Unauthenticated: the gate refused who asks.
            UpstreamUnavailable: our own database is away, and nothing is stored.
        """
        self._work = asyncio.create_task(self._perform())
        try:
            ended = await ended_within(self._work, min(moment_s, self._on.deadlines.after_s))
        except asyncio.CancelledError:
            self._work.add_done_callback(_retrieve_exception)
            if not self._writing:
                self._become_turn()  # it goes on, although nobody waits for it
            raise
        if not ended and not self._writing:
            return self._become_turn()
        if self._run is not None:
            return self._run
        outcome = await self._work
        return replace(self._task, artifacts=outcome.once) if outcome.once else self._task

    async def _perform(self) -> Outcome:
        # Without a deadline: what is not over within a moment becomes a turn, and that has one.
        try:
            outcome = await self._on.executor.call(self._caller, self._call, self._task.id, self._report_progress)
        except Exception as error:
            if self._run is not None:
                raise  # the turn knows whether it can be tried again
            outcome = outcome_of(error, self._task.id, self._skill, stored=False)
        if self._run is None:
            self._writing = True
            await self._write(outcome)
        return outcome

    async def _write(self, outcome: Outcome) -> None:
        on, task = self._on, self._task
        message = events.said_by_agent(on.new_id, outcome.message) if outcome.message else None
        artifacts = [events.ArtifactEvent(artifact) for artifact in outcome.artifacts]
        status = events.StatusEvent(State.IN_PROGRESS, outcome.state, attempt=1, message=message, error=outcome.error)
        log = [*opening_events(task), *artifacts, status]
        task.state, task.message, task.error = outcome.state, message, outcome.error
        task.skill, task.status_at, task.artifacts = self._skill, datetime.now(UTC), outcome.artifacts
        if message is not None:
            task.history = [*task.history, message]
        record = None
        if on.executor.reads(self._call):
            # A read leaves no record, as on every door: its task can be fetched again, and promises nothing.
            task.caller = {**task.caller, **UNRECORDED}
        else:
            record = begun_record(on.trail, self._caller, task, self._call)
        await on.engine.add_turn(turn_birth(task, log, record))
        on.engine.notifier.wake(task.id)  # nobody could know of it before, but one may have asked to be told
        task.seq = len(log)
        code = outcome.error["code"] if outcome.error is not None else None
        on.engine.metrics.turned(task.skill, task.state.value, time.time() - self._started_s, code)

    def _become_turn(self) -> TurnRun:
        """Hand the work over to a turn of the engine, which awaits it."""
        if self._run is None:
            self._work.add_done_callback(_retrieve_exception)
            age_s = time.time() - self._started_s
            turn = Turn(self._caller, self._message, self._call, work=self._work, age_s=age_s)
            self._run = TurnRun(self._on, self._task, turn, self._on.engine.lease(self._task.id, 1), stored=False)
            self._on.engine.start(self._run)
        return self._run

    async def _report_progress(self, text: str, percent: float | None) -> None:
        await self._become_turn().append(events.ProgressEvent(text, percent))


def _retrieve_exception(work: "asyncio.Task[Outcome]") -> None:
    """Mark the exception of the work as retrieved: its sender may have left."""
    if not work.cancelled():
        work.exception()
