"""The task engine of a process: claims what is due, keeps the leases of what it runs, and writes every step.

Turns and actions are two lanes of it, which differ in what an attempt does. An attempt that ends within a moment is
written once; one that lasts says first that it has begun.

    claim      leases due tasks, and those that a process left      one statement for many
    heartbeat  renews the leases; what cannot be renewed is stopped before another process may claim it
    step       written with its events and its audit record, refused unless the attempt still has the task
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Final, TypeVar
from uuid import UUID

import structlog

from dragoman.errors import DragomanError, UpstreamUnavailable
from dragoman.infra.batching import Batcher
from dragoman.infra.db import UniqueViolated
from dragoman.infra.telemetry import TaskMetrics
from dragoman.kit import AttemptFenced
from dragoman.services.tasks.engine.attempt import Attempt, Lane
from dragoman.services.tasks.engine.leases import Lease, fenced, now
from dragoman.services.tasks.engine.notifier import TaskNotifier
from dragoman.services.tasks.engine.steps import ActionBirth, Birth, LaneName, Step, Written
from dragoman.services.tasks.engine.store import Claim, EngineStore
from dragoman.services.tasks.events import Loggable
from dragoman.services.tasks.lifecycle import State

_LOG = structlog.get_logger(__name__)
_LEAST, _MOST = 16, 500
# The loop may be busy for this long with what was claimed at once: leases, requests and streams wait meanwhile.
_SLICE_S: Final = 0.05
# An attempt that has not ended by then says that it has begun.
_BEGIN_S: Final = 0.05
# At low rates a claim for each task would be a commit for each: those that come close together share one.
_GATHER_S: Final = 0.005
# Counting reads the whole queue, so it is done less often than the rest.
_SWEEPS_PER_COUNT: Final = 4
# A lease whose row was being changed is renewed as soon as that can be over.
_SKIPPED_S: Final = 0.05
FIFO_INDEX: Final = "task_queue_fifo_head"
_TRIES: Final = 20

R = TypeVar("R")


class Engine:
    """The tasks that run in this process, at most `capacity` claimed ones of each lane at once."""

    def __init__(
        self,
        store: EngineStore,
        notifier: TaskNotifier,
        metrics: TaskMetrics,
        *,
        owner: UUID,
        heartbeat_s: float = 1.0,
        begin_s: float = _BEGIN_S,
        capacity: int = 1000,
    ) -> None:
        self._store = store
        self.notifier = notifier
        self.metrics = metrics
        self.owner = owner
        self.heartbeat_s = heartbeat_s
        self._begin_s = begin_s
        self._capacity = capacity
        # Shorter than the lease: a process that cannot renew it stops before another begins.
        self._safe_s = store.durations.lease.total_seconds() - heartbeat_s / 2
        self._lanes: list[Lane] = []
        self._running: dict[UUID, Attempt] = {}
        self._running_in: Counter[LaneName] = Counter()
        self._poked = asyncio.Event()
        self._full: set[LaneName] = set()
        self._sweeps = 0
        self._batch = _MOST // 2
        self._turns: Batcher[Birth, bool] = Batcher(self._add_turns, key=lambda birth: birth.fifo_key)
        self._actions: Batcher[ActionBirth, bool] = Batcher(self._add_actions, key=lambda birth: birth.fifo_key)
        self._steps: Batcher[Step, Written | None] = Batcher(self._write_steps, key=lambda step: step.id)

    def serve(self, lane: Lane) -> None:
        """Claim the tasks of this lane."""
        self._lanes.append(lane)

    def stop_claiming(self, lane: LaneName) -> None:
        """Claim no tasks of this lane."""
        self._lanes = [served for served in self._lanes if served.name is not lane]

    def poke(self) -> None:
        """Look for work, here and in the other processes: something was queued."""
        self._poked.set()
        self.notifier.queued()

    def wake(self) -> None:
        """Look for work in this process."""
        self._poked.set()

    def find(self, task_id: UUID) -> Attempt | None:
        """Return the attempt at a task that runs in this process."""
        return self._running.get(task_id)

    def lease(self, task_id: UUID, attempt: int, *, since: float | None = None, fifo_key: str | None = None) -> Lease:
        """Return a lease that was asked for at `since`; without that, one for work that is not stored yet."""
        lease = Lease(task_id, self.owner, attempt, fifo_key=fifo_key)
        if since is not None:
            self.leased(lease, since=since)
        return lease

    def leased(self, lease: Lease, *, since: float) -> None:
        """Bound a lease that is asked for at `since`, with work that was not stored before."""
        lease.until = since + self._safe_s

    async def is_past(self, moment: datetime) -> bool:
        """Check whether a moment is past by PostgreSQL's clock, which all processes share."""
        return await self._store.is_past(moment)

    async def add_turn(self, birth: Birth) -> bool:
        """Store a turn; return whether it has to wait for another of its key.

        Raises:
            UniqueViolated: its alias or its idempotency key is taken.
        """
        return await _seen_again(partial(self._turns.put, birth))

    async def add_action(self, birth: ActionBirth) -> bool:
        """Store an action; return whether its idempotency key was free."""
        added = await _seen_again(partial(self._actions.put, birth))
        if added:
            self.notifier.happened(birth.id)
            self.poke()
        return added

    async def write(self, step: Step) -> Written | None:
        """Write a step, durable when this returns; None when it was refused, and nothing was written."""
        written = await _seen_again(partial(self._steps.put, step))
        if written is not None:
            self.notifier.happened(step.id)
        return written

    async def write_along(self, step: Step, other: Callable[[], Awaitable[None]]) -> Written | None:
        """Write a step together with something else of the core's database: both, or neither when it was refused."""
        written, freed = await _seen_again(partial(self._store.step_along, step, other))
        self._run_freed(freed)
        if written is not None:
            self.notifier.happened(step.id)
        return written

    async def report(self, attempt: Attempt, events: Sequence[Loggable]) -> Written | None:
        """Append to the log of a task that is worked on; None when the attempt no longer has the task."""
        async with attempt.writing:
            if not events and not attempt.opening:
                return Written(attempt.task.seq, attempt.lease.attempt, blocked=False)
            return await self._write_for(attempt, attempt.report(events))

    async def _write_for(self, attempt: Attempt, step: Step) -> Written | None:
        """Write a step of an attempt, after its opening where that is not written yet."""
        opening = attempt.opening
        if not opening:
            return await self.write(step)
        record = attempt.opening_record()
        step.precede(opening, slot=attempt.task.slot, record=record)
        written = await self.write(step)
        if written is None and await self._holds(attempt):
            # The opening was written before, and the answer that said so was lost.
            step.drop_opening(opening, record)
            written = await self.write(step)
        if written is not None:
            attempt.opening = ()
        return written

    async def _holds(self, attempt: Attempt) -> bool:
        task_id = attempt.task.id
        return (await self._store.find_holders([task_id])).get(task_id) == (self.owner, attempt.lease.attempt)

    def start(self, attempt: Attempt) -> None:
        """Begin the work; a stored task is leased to this process already."""
        task_id = attempt.task.id
        if (before := self._running.get(task_id)) is not None:  # this process had lost its own lease
            before.stop()
        attempt.work = asyncio.create_task(self._perform(attempt))
        self._running[task_id] = attempt
        self._running_in[attempt.lane] += 1
        attempt.work.add_done_callback(lambda _: self._ended(attempt))

    def cancel(self, task_id: UUID) -> None:
        """Stop the work on a task that someone has ended."""
        if (attempt := self._running.get(task_id)) is not None:
            attempt.cancel()

    async def look_at(self, task_id: UUID) -> None:
        """Stop the work on a task that another process has ended or claimed."""
        attempt = self._running.get(task_id)
        if attempt is not None and attempt.stored:
            await self._look_at([attempt])

    async def _look_at(self, attempts: Sequence[Attempt]) -> None:
        """Stop those of these attempts that were ended elsewhere, or that another process has claimed."""
        holders = await self._store.find_holders([attempt.task.id for attempt in attempts])
        for attempt in attempts:
            holder = holders.get(attempt.task.id)
            if self._running.get(attempt.task.id) is not attempt:
                continue
            if holder is None:
                if not attempt.over:
                    attempt.cancel()
            elif holder != (self.owner, attempt.lease.attempt):
                attempt.stop()

    async def claim_forever(self) -> None:
        """Claim what is due; runs until it is cancelled."""
        looked = 0.0
        while True:
            self._poked.clear()
            more = False
            if monotonic() - looked >= self.heartbeat_s:
                looked = monotonic()
                await self._store.unblock()
                for lane in self._lanes:
                    more |= await self._take(lane, left=True)
            for lane in self._lanes:
                more |= await self._take(lane, left=False)
            if not more:
                await _set_within(self._poked, self.heartbeat_s)
                await asyncio.sleep(_GATHER_S)

    async def renew_forever(self) -> None:
        """Keep the leases of what runs here, and of nothing else; runs until it is cancelled.

        A lease that cannot be renewed in time is given up: its work is stopped before another process may begin it.
        """
        while True:
            began, skipped = now(), False
            try:
                # No longer than the shortest lease: what cannot be renewed by then is stopped.
                async with asyncio.timeout(self._shortest_lease(began + self._safe_s) - began):
                    skipped = await self._renew(self._held(), began)
            except (DragomanError, TimeoutError) as error:
                _LOG.warning("tasks.heartbeat_failed", reason=str(error) or "no answer")
            finally:
                self._stop_expired()
            next_at = self._shortest_lease(began + (_SKIPPED_S if skipped else self.heartbeat_s))
            await asyncio.sleep(max(0.01, next_at - now()))

    async def sweep(self) -> None:
        """Wake the followers of tasks that have moved, and now and then count what is in the queue."""
        if followed := self.notifier.followed():
            self.notifier.compare_seqs(await self._store.seqs(followed))
        if self._sweeps % _SWEEPS_PER_COUNT == 0:
            due, running, left = await self._store.depth()
            self.metrics.queued(due=due, running=running, left=left)
        self._sweeps += 1

    async def stop(self) -> None:
        """Stop what runs here, and write what came of it."""
        running = list(self._running.values())
        for attempt in running:
            attempt.work.cancel()
        await asyncio.gather(*(attempt.work for attempt in running), return_exceptions=True)
        await self._turns.close()
        await self._actions.close()
        await self._steps.close()

    async def release(self) -> None:
        """Give back what was stopped, for others to take at once."""
        await self._store.release(self.owner)

    def _held(self) -> list[Attempt]:
        return [attempt for attempt in self._running.values() if attempt.stored]

    def _shortest_lease(self, at_most: float) -> float:
        """Return when the first lease ends under which work goes on; not those of work that is done."""
        return min([at_most, *(held.lease.until for held in self._held() if not held.over and held.lease.valid)])

    async def _renew(self, held: Sequence[Attempt], began: float) -> bool:
        """Renew what runs here; return whether something has to be asked for again soon."""
        ours = await self._store.heartbeat(self.owner, [attempt.task.id for attempt in held])
        for attempt in held:
            if ours.get(attempt.task.id):
                attempt.lease.until = began + self._safe_s
        if gone := [attempt for attempt in held if attempt.task.id not in ours]:
            await self._look_at(gone)
        return not all(ours.values())

    def _stop_expired(self) -> None:
        """Stop what is under way without a lease; what is done and waits to be written is fenced by its attempt."""
        for attempt in self._held():
            if not attempt.lease.valid and not attempt.over:
                _LOG.warning("tasks.lease_given_up", task_id=str(attempt.task.id), attempt=attempt.lease.attempt)
                attempt.stop()

    async def _take(self, lane: Lane, *, left: bool) -> bool:
        """Begin what there is to do; return whether there may be more of it."""
        room = self._capacity - self._running_in[lane.name]
        # A claim for every place that becomes free would be a commit for each.
        if room < self._capacity // 4:
            self._full.add(lane.name)
            return False
        self._full.discard(lane.name)
        limit, since = min(room, self._batch), now()
        claims = await self._store.claim(self.owner, lane.name, limit, left=left, but=lane.crowded())
        if not claims:
            return False
        if left:
            _LOG.warning("tasks.taken_over", lane=lane.name, tasks=len(claims), first=str(claims[0].task.id))
        for claim in claims:
            self._begin(lane, claim, since)
        asyncio.get_running_loop().call_later(self._begin_s, self._begin_slow, [claim.task.id for claim in claims])
        await self._paced(len(claims))
        return len(claims) == limit

    def _begin(self, lane: Lane, claim: Claim, since: float) -> None:
        lease = self.lease(claim.task.id, claim.attempt, since=since, fifo_key=claim.fifo_key)
        try:
            self.start(lane.take(claim, lease))
        except Exception:  # noqa: BLE001 - a worker loop: one task that cannot be read does not stop the others
            _LOG.exception("tasks.claim_unreadable", task_id=str(claim.task.id))

    def _begin_slow(self, task_ids: Sequence[UUID]) -> None:
        for task_id in task_ids:
            if (attempt := self._running.get(task_id)) is not None:
                self.begin(attempt)

    def begin(self, attempt: Attempt) -> None:
        """Write that a stored attempt has begun, unless that is written or the attempt is over."""
        if attempt.opening and not attempt.over and attempt.lease.valid:
            written = asyncio.ensure_future(self._begun(attempt))
            written.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _begun(self, attempt: Attempt) -> None:
        if await self.report(attempt, []) is None and not attempt.over:
            attempt.stop()

    async def _paced(self, begun: int) -> None:
        """Let claimed work begin, and adapt the size of claims to what this machine begins in a moment."""
        began = monotonic()
        await asyncio.sleep(0)
        took_s = monotonic() - began
        if took_s > _SLICE_S:
            self._batch = max(_LEAST, self._batch // 2)
        elif begun == self._batch and took_s < _SLICE_S / 2:
            self._batch = min(_MOST, self._batch * 2)

    def _ended(self, attempt: Attempt) -> None:
        if self._running.get(attempt.task.id) is attempt:
            del self._running[attempt.task.id]
        self._running_in[attempt.lane] -= 1
        if attempt.lane in self._full and self._running_in[attempt.lane] <= self._capacity // 4 * 3:
            self._poked.set()
        if not attempt.work.cancelled() and (error := attempt.work.exception()) is not None and attempt.stored:
            # Those who wait are told of it; the task itself is claimed again, and ends when its attempts are used up.
            _LOG.error("tasks.attempt_failed", task_id=str(attempt.task.id), exc_info=error)

    async def _perform(self, attempt: Attempt) -> None:
        try:
            outcome = await fenced(attempt.perform(), attempt.lease)
            attempt.over = True
            await self._settle(attempt, outcome)
        except AttemptFenced:
            _LOG.warning("tasks.superseded", task_id=str(attempt.task.id), attempt=attempt.lease.attempt)
            self.notifier.happened(attempt.task.id)

    async def _settle(self, attempt: Attempt, outcome: Step | Birth | None) -> None:
        """Write the outcome of an attempt, for as long as that takes: the work is done."""
        if not isinstance(outcome, Step):
            if outcome is not None:
                await self.add_turn(outcome)
                self.notifier.wake(attempt.task.id)  # nobody could know of it before, but one may have asked to be told
            attempt.finished(outcome, seq=len(outcome.events) if outcome is not None else 0)
            return
        unstorable = False
        while True:
            try:
                async with attempt.writing:
                    written = await self._write_for(attempt, outcome)
            except UpstreamUnavailable:
                await asyncio.sleep(self.heartbeat_s)
            except Exception:
                if unstorable:
                    raise
                _LOG.exception("tasks.not_storable", task_id=str(outcome.id))
                outcome, unstorable = attempt.unstorable(), True
            else:
                if written is None:
                    raise AttemptFenced
                attempt.finished(outcome, seq=written.seq)
                break
        if outcome.state == State.INPUT_REQUIRED:
            await attempt.after_parking()

    async def _add_turns(self, births: Sequence[Birth]) -> Sequence[bool]:
        blocked = await self._store.add_turns(births)
        return [birth.id in blocked for birth in births]

    async def _add_actions(self, births: Sequence[ActionBirth]) -> Sequence[bool]:
        added = await self._store.add_actions(births)
        return [birth.id in added for birth in births]

    async def _write_steps(self, steps: Sequence[Step]) -> Sequence[Written | None]:
        written, freed = await self._store.step(steps)
        self._run_freed(freed)
        return written

    def _run_freed(self, freed: Sequence[UUID]) -> None:
        """Have the tasks claimed that waited behind another of their key."""
        for task_id in freed:
            self.notifier.happened(task_id)
        if freed:
            self.poke()


async def _seen_again(write: Callable[[], Awaitable[R]]) -> R:
    """Retry a write that lost the race for the head of its key: the next try sees the winner."""
    for _ in range(_TRIES):
        try:
            return await write()
        except UniqueViolated as error:
            if error.constraint != FIFO_INDEX:
                raise
    raise UpstreamUnavailable("the queue of its key", retry_after_s=1)


async def _set_within(signal: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await signal.wait()
    except TimeoutError:
        pass
