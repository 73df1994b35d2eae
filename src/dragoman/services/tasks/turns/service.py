"""Conversations: send a message, read its task, wait for it and follow it. All doors use this."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

import orjson

from dragoman import kit
from dragoman.context import Caller
from dragoman.errors import (
    Conflict,
    DragomanError,
    Forbidden,
    IdempotencyConflict,
    InvalidInput,
    RateLimited,
    Unauthenticated,
    UpstreamUnavailable,
)
from dragoman.infra.db import check_key
from dragoman.infra.digests import digest_of
from dragoman.infra.limits import OpenStreams
from dragoman.services.tasks import events
from dragoman.services.tasks.access import TaskAccess
from dragoman.services.tasks.engine.leases import Lease, now
from dragoman.services.tasks.engine.steps import Queue, Step
from dragoman.services.tasks.engine.store_effects import EffectStore
from dragoman.services.tasks.engine.store_keys import KeyClaim
from dragoman.services.tasks.errors import (
    StateTooLarge,
    TaskBusy,
    TaskClosed,
    TaskMoved,
    TaskNotFound,
    ThreadExpired,
    WrongContext,
)
from dragoman.services.tasks.events import ArtifactEvent, Event, ProgressEvent, StatusEvent
from dragoman.services.tasks.identity import caller_json
from dragoman.services.tasks.lifecycle import RESTING, State
from dragoman.services.tasks.models import KEY_NAMES, Incoming, Json, LoggedEvent, Reply, Task, TaskQuery, ThreadKey
from dragoman.services.tasks.passages import SEND_MESSAGE
from dragoman.services.tasks.ports import Delegations, Refusals
from dragoman.services.tasks.reader import TaskReader
from dragoman.services.tasks.store import TaskStore, ThreadStore
from dragoman.services.tasks.turns.direct import DirectCall
from dragoman.services.tasks.turns.drafts import Drafts
from dragoman.services.tasks.turns.execution import Outcome
from dragoman.services.tasks.turns.records import begun_record, continued_record
from dragoman.services.tasks.turns.run import Turn, TurnDependencies, TurnRun, failed, turn_birth

_MOMENT_S = 0.2

A = TypeVar("A")


class TaskService:
    """What the doors call, through the gate."""

    def __init__(  # noqa: PLR0913 - the parts of conversations, each by its name
        self,
        turns: TurnDependencies,
        *,
        store: TaskStore,
        threads: ThreadStore,
        effects: EffectStore,
        access: TaskAccess,
        streams: OpenStreams,
        thread_bytes: int,
        delegations: Delegations | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        self._turns = turns
        self._engine = turns.engine
        self._executor = turns.executor
        self._delegations = delegations
        self._refusals = refusals
        self._store = store
        self._reader = TaskReader(store)
        self._threads = threads
        self._effects = effects
        self._access = access
        self._streams = streams
        self._thread_bytes = thread_bytes

    async def send(self, caller: Caller, incoming: Incoming) -> Task:
        """Begin a task, or go on with one that asked; returns when it rests, or when the sender has waited enough.

        Raises:
            TaskNotFound: the task to go on with does not exist, or is another tenant's.
            TaskClosed: it has ended.
            TaskBusy: it has asked nothing.
            ThreadExpired: the conversation was idle for too long.
            StateTooLarge: the conversation would hold too much.
        """

        async def work() -> Task:
            run = await self._start(caller, incoming, replies=False, waits=incoming.wait_s != 0)
            return await self._wait(caller, incoming, run)

        return await self._once(caller, incoming, work)

    async def ask(self, caller: Caller, incoming: Incoming) -> Task | Reply:
        """Like `send`, but return a `Reply` for work that ends at once and needs no task."""

        async def work() -> Task | Reply:
            run = await self._start(caller, incoming, replies=incoming.wait_s != 0, waits=incoming.wait_s != 0)
            task = await self._wait(caller, incoming, run)
            reply = run.reply if isinstance(run, TurnRun) else None
            return task if reply is None else Reply(task.context_id, reply)

        return await self._once(caller, incoming, work)

    async def stream(self, caller: Caller, incoming: Incoming) -> Task | Reply:
        """Like `ask`, for a caller that follows the task: return it as it began."""
        return await self._once(caller, incoming, lambda: self._begin_stream(caller, incoming))

    async def _begin_stream(self, caller: Caller, incoming: Incoming) -> Task | Reply:
        run = await self._start(caller, incoming, replies=True)
        if isinstance(run, Task):
            return run
        if incoming.task_ref:
            return await self._stored(caller, run)
        task = run.at_birth()
        await run.first_sign(_MOMENT_S)
        if not run.work.done():
            await run.store()
        elif not run.work.cancelled() and (error := run.work.exception()) is not None:
            raise error
        return task if run.reply is None else Reply(task.context_id, run.reply)

    async def get(self, caller: Caller, ref: str) -> Task:
        """Return a task, with its artifacts and its progress so far.

        Raises:
            TaskNotFound: it does not exist, or is another tenant's.
        """
        task = await self._reader.find(caller.tenant, ref)
        if task is None:
            raise TaskNotFound(ref)
        self._access.check(caller, task, ref)
        if not task.terminal:
            drafts = Drafts()
            progress: tuple[int, ProgressEvent] | None = None
            async for logged in self._store.replay(caller.tenant, task.id, until=task.seq):
                drafts.take(logged.event)
                progress = (logged.seq, logged.event) if isinstance(logged.event, ProgressEvent) else progress
            task.artifacts = drafts.artifacts or task.artifacts
            _show_progress(task, progress)
        return task

    async def exists(self, caller: Caller, ref: str) -> bool:
        """Check whether a task of the tenant has this id or alias, whoever may touch it."""
        return await self._reader.find(caller.tenant, ref) is not None

    async def page(self, caller: Caller, query: TaskQuery) -> list[Task]:
        """Return a page of tasks, one more than the limit if there are more."""
        tasks = await self._store.page(caller.tenant, query, self._access.visible(caller))
        return [self._access.shown(caller, task) for task in tasks]

    async def count(self, caller: Caller, query: TaskQuery) -> int:
        """Return how many tasks there are on all pages, up to 10,000."""
        return await self._store.count(caller.tenant, query, self._access.visible(caller))

    async def follow(
        self, caller: Caller, task: Task, after: int, *, keepalive_s: float | None = None
    ) -> AsyncGenerator[LoggedEvent | None]:
        """Yield the events after `after`, in order and none lost, until the task rests.

        With `keepalive_s`, yield None whenever nothing has happened for that long, or sooner.

        Raises:
            Unauthenticated: the credential of the caller was revoked meanwhile, or has expired.
        """
        watch = self._streams.watch(caller)
        wait_s = watch.every_s if keepalive_s is None else min(keepalive_s, watch.every_s)
        with self._engine.notifier.follow(task.tenant_id, task.id) as signal:
            while True:
                signal.clear()
                await watch.check()
                log_events = await self._store.events(caller.tenant, task.id, after)
                for logged in log_events:
                    after = logged.seq
                    await watch.check()  # a slow reader may have kept the event before for long
                    yield _with_secrets(task, logged)
                if log_events and _rests(log_events[-1].event):
                    current = await self._store.find(caller.tenant, str(task.id))
                    if current is None or (current.resting and current.seq == after):
                        return
                if not log_events and not await _wait_for_signal(signal, wait_s) and keepalive_s is not None:
                    yield None

    async def _start(self, caller: Caller, incoming: Incoming, *, replies: bool, waits: bool = False) -> TurnRun | Task:
        """Begin what a message asks for; return its run, or the task where there is none or it has ended."""
        if incoming.task_ref:
            return await self._resume(caller, incoming)
        if self._delegations is not None and self._delegations.takes(incoming):
            return await self._hand_over(self._delegations, caller, incoming)
        keyed = incoming.idempotency_key is not None
        return await self._begin(caller, incoming, replies=replies and not keyed, waits=waits and not keyed)

    async def _hand_over(self, delegations: Delegations, caller: Caller, incoming: Incoming) -> TurnRun | Task:
        try:
            task_id, replayed = await delegations.submit(caller, incoming)
        except (RateLimited, Unauthenticated, UpstreamUnavailable):
            raise  # nothing is stored, so there is no task to tell of it
        except DragomanError as error:
            outcome = failed(error, skill="task", refused=True)
            if delegations.refuses(error):
                outcome = replace(outcome, state=State.REJECTED)
            return await self._begin(caller, incoming, replies=False, outcome=outcome)
        task = await self.get(caller, str(task_id))
        if incoming.attach is not None:  # a repetition too: the first one may have failed just here
            await incoming.attach(task, 0)
        return replace(task, replayed=replayed, metadata={**task.metadata, "replayed": replayed})

    async def _once(self, caller: Caller, incoming: Incoming, work: Callable[[], Awaitable[A]]) -> A | Task:
        """Do the work, unless this sender has had it done under this key; then show the task that it was.

        An answer that is refused is on record.
        """
        try:
            return await self._once_by_key(caller, incoming, work)
        except _RefusedByGate as refused:
            raise refused.error from None
        except (Forbidden, RateLimited, Unauthenticated, UpstreamUnavailable):
            raise  # on record already, or not about the answer
        except DragomanError as error:
            if incoming.task_ref and self._refusals is not None:
                await self._refusals.record(caller, incoming.task_ref, error)
            raise

    async def _once_by_key(self, caller: Caller, incoming: Incoming, work: Callable[[], Awaitable[A]]) -> A | Task:
        if incoming.idempotency_key is None:
            return await work()
        check_key(incoming.idempotency_key)
        if (earlier := await self._find_earlier(caller, incoming)) is not None:
            return earlier
        try:
            return await work()
        except Conflict:
            # Of two that come at once one loses: by the key, or because the other's answer was there first.
            if (earlier := await self._find_earlier(caller, incoming)) is None:
                raise
            return earlier

    async def _find_earlier(self, caller: Caller, incoming: Incoming) -> Task | None:
        key = incoming.idempotency_key or ""
        first_use = await self._turns.keys.find(caller.tenant, caller.subject, key)
        if first_use is None:
            return None
        digest, task_id = first_use
        if digest != self._digest(incoming):
            raise IdempotencyConflict(key, task_id=str(task_id))
        task = await self.get(caller, str(task_id))
        if not task.resting and incoming.wait_s != 0:
            task = await self._wait_until_resting(caller, task, incoming.wait_s)
        return replace(task, replayed=True, metadata={**task.metadata, "replayed": True})

    async def _wait_until_resting(self, caller: Caller, task: Task, within_s: float | None) -> Task:
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s), aclosing(self.follow(caller, task, task.seq)) as log_events:
                async for _ in log_events:
                    pass
        return await self.get(caller, str(task.id))

    async def _wait(self, caller: Caller, incoming: Incoming, run: TurnRun | Task) -> Task:
        if isinstance(run, Task):
            if run.resting or incoming.wait_s == 0:
                return run
            task = await self._wait_until_resting(caller, run, incoming.wait_s)
            replayed = {"replayed": run.replayed} if "replayed" in run.metadata else {}
            return replace(task, replayed=run.replayed, metadata={**task.metadata, **replayed})
        if incoming.wait_s == 0:
            return await self._stored(caller, run)
        moment_s = _moment_s(incoming.wait_s)
        if not await run.ended(moment_s):
            await run.store()
            await run.ended(None if incoming.wait_s is None else incoming.wait_s - moment_s)
        task = await self._result(caller, run)
        # It is tried again, or goes on in another process.
        if not task.resting and run.work.done() and run.reply is None:
            return await self._wait_until_resting(caller, task, incoming.wait_s)
        return task

    async def _begin(
        self, caller: Caller, incoming: Incoming, *, replies: bool, waits: bool = False, outcome: Outcome | None = None
    ) -> TurnRun | Task:
        context_id = incoming.context_id or str(self._turns.new_id())
        thread = ThreadKey(caller.subject, incoming.context_id) if incoming.context_id is not None else None
        known = await self._check_thread(caller, thread, incoming.message)
        direct = outcome is not None or self._executor.is_direct(incoming.tool_call)
        metadata = incoming.metadata or {}
        if incoming.opening is not None and not known and incoming.tool_call is None:
            metadata = {**metadata, **await incoming.opening()}
        now, message = datetime.now(UTC), _with_key(incoming)
        task = Task(
            tenant_id=caller.tenant,
            id=self._turns.new_id(),
            alias=incoming.alias,
            context_id=context_id,
            owner=caller.subject,
            skill=incoming.skill,
            state=State.IN_PROGRESS,
            status_at=now,
            message=None,
            error=None,
            slot=None,
            history=[self._executor.keepable(message, incoming.tool_call)],
            artifacts=[],
            metadata=metadata,
            caller=caller_json(caller),
            seq=0,
            attempt=1,
            created_at=now,
        )
        if incoming.attach is not None:
            await incoming.attach(task, 0)
        call = incoming.tool_call
        if waits and incoming.alias is None and call is not None and self._executor.is_whole(call):
            return await DirectCall(self._turns, task, caller, message, call).run(_moment_s(incoming.wait_s))
        claim = self._claim(caller, incoming)
        turn = Turn(caller, message, incoming.tool_call, not known, replies, claim, outcome)
        fifo_key = None if direct else task.thread.fifo_key
        if fifo_key is None or incoming.context_id is None:
            lease = self._engine.lease(task.id, 1, fifo_key=fifo_key)
            run = TurnRun(self._turns, task, turn, lease, stored=False)
            self._engine.start(run)
            return run
        return await self._enqueue(task, turn, fifo_key)

    async def _enqueue(self, task: Task, turn: Turn, fifo_key: str) -> TurnRun | Task:
        """Store a turn of a conversation that others may be in; the run, unless it has to wait for another turn."""
        since = now()
        task.state, task.attempt = State.QUEUED, 0
        log = [*events.accepted(), events.StatusEvent(State.VALIDATED, State.QUEUED)]
        record = begun_record(self._turns.trail, turn.caller, task, turn.tool_call)
        birth = turn_birth(task, list(log), record, worker=self._engine.owner, fifo_key=fifo_key, claim=turn.claim)
        blocked = await self._engine.add_turn(birth)
        task.seq = len(log)
        self._engine.notifier.happened(task.id)
        if blocked:
            return task
        lease = self._engine.lease(task.id, 1, since=since, fifo_key=fifo_key)
        return self._run_stored(task, replace(turn, claim=None), lease)

    def _run_stored(self, task: Task, turn: Turn, lease: Lease) -> TurnRun:
        run = TurnRun(self._turns, task, turn, lease, stored=True)
        if task.state is State.QUEUED:
            run.opening = events.opened(task.state, lease.attempt, last=task.attempt)
            task.state = State.IN_PROGRESS
            asyncio.get_running_loop().call_later(_MOMENT_S / 4, self._engine.begin, run)
        self._engine.start(run)
        return run

    async def _resume(self, caller: Caller, incoming: Incoming) -> TurnRun | Task:
        """Go on with a task that asked."""
        task = await self._find_task(caller, incoming)
        if task.delegated and self._delegations is not None:
            return await self._answer_action(self._delegations, caller, incoming, task)
        _check_open(task, incoming)
        if task.state is not State.INPUT_REQUIRED:
            raise TaskBusy(task.state.value)
        return await self._answer(caller, incoming, task)

    async def _answer_action(self, delegations: Delegations, caller: Caller, incoming: Incoming, task: Task) -> Task:
        # The operation that takes the answer keeps its key: a repetition is answered whatever became of the task since.
        if not await delegations.answered(caller, task, incoming):
            _check_open(task, incoming)
            try:
                await delegations.answer(caller, task, incoming)
            except DragomanError as error:
                raise _RefusedByGate(error) from error
        return await self.get(caller, str(task.id))

    async def _answer(self, caller: Caller, incoming: Incoming, task: Task) -> TurnRun | Task:
        message = self._executor.keepable(_with_key(incoming), incoming.tool_call)
        await self._check_thread(caller, task.thread, message)
        answer, slot = _effect_answer(task, message)
        if answer is not None:
            self._access.check_steering(caller)
        if incoming.attach is not None:
            await incoming.attach(task, task.seq)
        since = now()
        for to in (State.IN_PROGRESS, State.QUEUED):  # at once, unless other turns of the conversation come first
            step = self._answer_step(caller, incoming, task, message, slot, to)
            if answer is None:
                written = await self._engine.write(step)
            else:
                settle = partial(
                    self._effects.answer, task.tenant_id, task.id, answer.step, done=answer.done, outcome=answer.outcome
                )
                written = await self._engine.write_along(step, settle)
            if written is not None:
                task.seq, task.state, task.slot, task.message = written.seq, to, slot, None
                task.history = [*task.history, message]
                if written.blocked:
                    return task
                lease = self._engine.lease(task.id, written.attempt, since=since, fifo_key=task.thread.fifo_key)
                turn = Turn(caller, _with_key(incoming), incoming.tool_call)
                return self._run_stored(task, turn, lease)
        raise TaskMoved(task.state.value)

    async def _find_task(self, caller: Caller, incoming: Incoming) -> Task:
        """Return the task that a message goes to."""
        task = await self._store.find(caller.tenant, incoming.task_ref or "")
        if task is None:
            raise TaskNotFound(incoming.task_ref or "")
        self._access.check(caller, task, incoming.task_ref or "")
        if incoming.context_id is not None and incoming.context_id != task.context_id:
            raise WrongContext.given(incoming.context_id)
        return task

    def _answer_step(
        self, caller: Caller, incoming: Incoming, task: Task, message: Json, slot: Json | None, to: State
    ) -> Step:
        attempt = task.attempt + 1 if to is State.IN_PROGRESS else None
        return Step(
            tenant=task.tenant_id,
            id=task.id,
            events=[events.MessageEvent(message), events.StatusEvent(State.INPUT_REQUIRED, to, attempt=attempt)],
            attempt=task.attempt,
            slot=slot,
            history=[message],
            queue=Queue.LEASE,
            worker=self._engine.owner,
            fifo_key=task.thread.fifo_key,
            head_only=to is State.IN_PROGRESS,
            caller=caller_json(caller),
            _claim=self._claim(caller, incoming),
            _records=(continued_record(self._turns.trail, caller, task, message, to),),
        )

    async def _check_thread(self, caller: Caller, thread: ThreadKey | None, message: Json) -> bool:
        """Return whether the conversation exists; refuse a message that it cannot take."""
        thread_state = await self._threads.find(caller.tenant, thread) if thread is not None else None
        expired, held = thread_state or (False, 0)
        if expired and thread is not None:
            raise ThreadExpired(thread.id)
        if held + len(orjson.dumps(message)) > self._thread_bytes:
            raise StateTooLarge(limit_bytes=self._thread_bytes)
        return thread_state is not None

    def _claim(self, caller: Caller, incoming: Incoming) -> KeyClaim | None:
        key = incoming.idempotency_key
        return KeyClaim(caller.subject, key, self._digest(incoming)) if key is not None else None

    def _digest(self, incoming: Incoming) -> bytes:
        """Return the digest of a message without secrets and message id, which may be new in a repetition."""
        metadata: Json = incoming.message.get("metadata") or {}
        request = {
            "parts": self._executor.keepable(incoming.message, incoming.tool_call)["parts"],
            "metadata": {name: value for name, value in metadata.items() if name not in KEY_NAMES},
            "context": incoming.context_id,
            "task": incoming.task_ref or incoming.alias,
        }
        return digest_of(SEND_MESSAGE.name, request)

    async def _stored(self, caller: Caller, run: TurnRun) -> Task:
        """Return the task as it was stored, for a caller that does not wait."""
        await run.store()
        if run.task.resting or run.task.seq == run.stored_seq:
            return replace(run.task)
        return await self.get(caller, str(run.task.id))

    async def _result(self, caller: Caller, run: TurnRun) -> Task:
        if run.work.done() and not run.work.cancelled():
            error = run.work.exception()
            if error is not None:
                raise error
            if run.task.resting or run.reply is not None:
                return replace(run.task, artifacts=run.task.once) if run.task.once else run.task
        return await self.get(caller, str(run.task.id))


class _RefusedByGate(Exception):
    """An answer that an operation refused, and recorded."""

    def __init__(self, error: DragomanError) -> None:
        super().__init__(error.message)
        self.error = error


def _check_open(task: Task, incoming: Incoming) -> None:
    """Refuse a message to a task that has ended, or that has moved since the sender saw it."""
    if task.terminal:
        raise TaskClosed(task.state.value)
    if incoming.seen is not None and incoming.seen != task.seq:
        raise TaskMoved(task.state.value)


def _effect_answer(task: Task, message: Json) -> tuple[kit.EffectAnswer | None, Json | None]:
    """Return what a message says about an effect that the task asks for, and the slot with which the turn goes on.

    Raises:
        InvalidInput: it does not say whether the effect happened.
    """
    slot = task.slot or {}
    if "effect" not in slot:
        return None, task.slot
    content = kit.Content.model_validate({"parts": message["parts"]})
    answer = kit.EffectAnswer.find(content, slot["effect"])
    if answer is None:
        raise InvalidInput.of(
            "effect", f"must say whether the step was done: {{'step': {slot['effect']!r}, 'done': true or false}}"
        )
    return answer, {"restart": slot["restart"]}


def _moment_s(wait_s: float | None) -> float:
    """Return how long a turn may go on before it is stored, for one who waits so long."""
    return _MOMENT_S if wait_s is None else min(_MOMENT_S, wait_s)


def _rests(event: Event) -> bool:
    return isinstance(event, StatusEvent) and event.to in RESTING


def _with_secrets(task: Task, logged: LoggedEvent) -> LoggedEvent:
    """Return an event with the secrets that only the sender is shown, and only once."""
    event = logged.event
    if not isinstance(event, ArtifactEvent):
        return logged
    with_secrets = next((artifact for artifact in task.once if artifact["id"] == event.artifact["id"]), None)
    return replace(logged, event=event.showing(with_secrets)) if with_secrets is not None else logged


def _with_key(incoming: Incoming) -> Json:
    """Return the message with its idempotency key, for a process that takes the task over."""
    return incoming.message | {"key": incoming.idempotency_key} if incoming.idempotency_key else incoming.message


async def _wait_for_signal(signal: asyncio.Event, within_s: float | None) -> bool:
    try:
        async with asyncio.timeout(within_s):
            return await signal.wait()
    except TimeoutError:
        return False


def _show_progress(task: Task, last: tuple[int, ProgressEvent] | None) -> None:
    """Show the last progress of a task at work as its message."""
    if last is None or task.state is not State.IN_PROGRESS:
        return
    seq, progress = last
    task.message = {"id": f"{task.id}:{seq}", "role": "agent", "parts": [{"kind": "text", "text": progress.text}]}
    if progress.percent is not None:
        task.metadata = {**task.metadata, "percent": progress.percent}
