"""Takes what is due, gives it to workers, and writes what came of it; takes over what a dead process left."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import structlog

from dragoman.context import progress_to, within_task
from dragoman.errors import DragomanError, UpstreamUnavailable
from dragoman.infra.telemetry import TaskMetrics
from dragoman.services.audit.store import Line
from dragoman.services.delegation.attempts import Attempt, Bench
from dragoman.services.delegation.errors import Superseded
from dragoman.services.delegation.store import Claimed, DelegationStore, Move
from dragoman.services.delegation.workers import Capability, Json
from dragoman.services.tasks.grouped import Grouped
from dragoman.services.tasks.hub import Hub
from dragoman.services.tasks.store import Change, CoreStore
from dragoman.services.tasks.writer import TaskWriter

_LOG = structlog.get_logger(__name__)
_LEAST, _MOST = 16, 500
# So long may the loop be busy with what was claimed at once: leases, requests and streams wait for as long.
_SLICE_S = 0.05


@dataclass(frozen=True, slots=True)
class Post:
    """Where a process stands among the others: who it is, what it keeps, whom it tells."""

    worker: UUID
    core: CoreStore
    writer: TaskWriter
    hub: Hub
    metrics: TaskMetrics


class Coordinator:
    """The delegated tasks that run in this process, at most so many at once."""

    def __init__(
        self, bench: Bench, store: DelegationStore, post: Post, *, beat_s: float = 1.0, at_once: int = 1000
    ) -> None:
        self._bench = bench
        self._store = store
        self._post = post
        self._beat_s = beat_s
        self._at_once = at_once
        # Shorter than the lease: who cannot keep it stops before another begins.
        self._sure_s = store.lease.total_seconds() - beat_s / 2
        self._running: dict[UUID, tuple[asyncio.Task[None], Attempt]] = {}
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._poked = asyncio.Event()
        self._crowded = False
        self._batch = _MOST // 2
        self.moves: Grouped[tuple[Move, Line], int | None] = Grouped(store.move)

    def poke(self) -> None:
        """There may be something to do."""
        self._poked.set()

    async def run(self) -> None:
        """Work until cancelled."""
        looked = 0.0
        loop = asyncio.get_running_loop()
        while True:
            self._poked.clear()
            more = False
            try:
                if loop.time() - looked >= self._beat_s:
                    looked = loop.time()
                    more = await self._take(left=True)
                more |= await self._take(left=False)
            except DragomanError as error:
                _LOG.warning("delegation.claim_failed", reason=error.message)
            except Exception:  # noqa: BLE001 - a worker loop: the next round may succeed
                _LOG.exception("delegation.claim_failed")
            if not more:
                await _within(self._poked, self._beat_s)

    async def beat(self) -> None:
        """Keep the leases of what runs here, and of nothing else: what is nobody's any more is taken over.

        While leases cannot be kept others may take the work over, so that it is stopped here just before they do.
        """
        clock = asyncio.get_running_loop().time
        kept_at = clock()
        while True:
            began_at, sure_until = clock(), kept_at + self._sure_s
            try:
                async with asyncio.timeout_at(max(sure_until, began_at + self._beat_s)):
                    await self._keep_leases()
                kept_at = began_at
            except (DragomanError, TimeoutError) as error:
                _LOG.warning("delegation.beat_failed", reason=str(error) or "no answer")
                if clock() >= sure_until:
                    self._let_go()
                    kept_at = clock()
            await asyncio.sleep(min(self._beat_s, max(0.0, kept_at + self._sure_s - clock())))

    async def stop(self) -> None:
        """Stop what runs here and give it back, for others to take at once."""
        running = [work for work, _ in self._running.values()]
        for work in running:
            work.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self.moves.close()
        await self._bench.ledger.close()
        await self._post.core.release(self._post.worker)

    def cancel(self, task_id: UUID) -> None:
        """Someone has ended the task. The worker may take a moment to call off what it began elsewhere."""
        if (running := self._running.get(task_id)) is not None and not running[1].cancelled:
            work, attempt = running
            attempt.cancelled = True
            work.cancel()

    async def look_at(self, task_id: UUID) -> None:
        """Another process changed a task: if it runs here and was ended or taken over there, stop."""
        if (running := self._running.get(task_id)) is None:
            return
        queued, worker = await self._post.core.find_worker(task_id)
        if not queued:
            self.cancel(task_id)
        elif worker != self._post.worker:  # the work that was looked at; by now there may be another, begun after it
            running[0].cancel()

    def runs(self, task_id: UUID) -> bool:
        """Whether it runs in this process."""
        return task_id in self._running

    async def _take(self, *, left: bool) -> bool:
        """Begin what there is to do; whether there may be more of it."""
        room = self._at_once - len(self._running)
        # A claim for every place that becomes free would be a commit for each.
        self._crowded = room < self._at_once // 4
        if self._crowded:
            return False
        attempts: dict[UUID, Attempt] = {}

        async def assign(one: Claimed) -> tuple[Json, Line]:
            attempt = attempts[one.task.id] = Attempt(self._bench, one, gate=self._slot)
            return await attempt.assigned()

        limit = min(room, self._batch)
        claimed = await self._store.claim(self._post.worker, limit, left=left, assign=assign)
        if not claimed:
            return False
        if left:
            _LOG.warning("delegation.taken_over", tasks=len(claimed), first=str(claimed[0].task.id))
        for one in claimed:
            if (before := self._running.get(one.task.id)) is not None:  # this process had lost its own lease
                before[0].cancel()
            attempt = attempts[one.task.id]
            work = asyncio.create_task(self._go(one, attempt))
            self._running[one.task.id] = work, attempt
            work.add_done_callback(lambda done, task_id=one.task.id: self._ended(task_id, done))
            self._post.hub.happened(one.task.id)
        await self._paced(len(claimed))
        return len(claimed) == limit

    async def _paced(self, begun: int) -> None:
        """Let what was claimed begin, and claim as many at once as this machine can begin in a moment."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.sleep(0)
        took_s = loop.time() - began
        if took_s > _SLICE_S:
            self._batch = max(_LEAST, self._batch // 2)
        elif begun == self._batch and took_s < _SLICE_S / 2:
            self._batch = min(_MOST, self._batch * 2)

    async def _keep_leases(self) -> None:
        running = list(self._running)
        kept = await self._post.core.heartbeat(self._post.worker, running)
        for task_id in running:
            if task_id not in kept:
                await self.look_at(task_id)

    def _let_go(self) -> None:
        """Stop what is under way; what is done and waits to be written is fenced by its attempt."""
        for work, attempt in self._running.values():
            if not attempt.over:
                work.cancel()

    def _slot(self, capability: Capability) -> asyncio.Semaphore:
        slot = self._slots.get(capability.action)
        if slot is None:
            slot = self._slots[capability.action] = asyncio.Semaphore(capability.at_once)
        return slot

    def _ended(self, task_id: UUID, work: asyncio.Task[None]) -> None:
        if (running := self._running.get(task_id)) is not None and running[0] is work:
            del self._running[task_id]
        if self._crowded and len(self._running) <= self._at_once // 4 * 3:
            self._poked.set()

    async def _go(self, one: Claimed, attempt: Attempt) -> None:
        began = datetime.now(UTC)

        async def progress(text: str, percent: float | None) -> None:
            event: Json = {"kind": "progress", "text": text, "percent": percent}
            await self._post.writer.change(Change(one.task.tenant_id, one.task.id, [event], attempt=one.task.attempt))
            self._post.hub.happened(one.task.id)

        try:
            with within_task(str(one.canonical)), progress_to(progress):
                move, line = await attempt.made()
            attempt.over = True
            move = await self._written(attempt, move, line)
        except Superseded:
            # Another has it, or this very step was written and PostgreSQL went away before it said so.
            _LOG.warning("delegation.late", task_id=str(one.task.id), attempt=one.task.attempt)
            self._post.hub.happened(one.task.id)
            return
        self._post.hub.happened(one.task.id)
        took_s = (datetime.now(UTC) - began).total_seconds()
        self._post.metrics.turned("task", move.state, took_s, (move.error or {}).get("code"))

    async def _written(self, attempt: Attempt, move: Move, line: Line) -> Move:
        """The step that was written: the one that was made, or that it could not be."""
        while True:
            try:
                seq = await self.moves.put((move, line))
            except UpstreamUnavailable:  # it was done; who gave up now would do it again
                await asyncio.sleep(self._beat_s)
            except Exception:  # noqa: BLE001 - what came of it cannot be stored, and that is what comes of it
                _LOG.exception("delegation.not_storable", task_id=str(move.id))
                move, line = attempt.unstorable()
            else:
                if seq is None:
                    raise Superseded
                return move


async def _within(signal: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await signal.wait()
    except TimeoutError:
        pass
