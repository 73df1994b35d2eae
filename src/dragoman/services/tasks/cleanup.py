"""The job that removes what has had its time: stale conversations, and tasks that ended long ago."""

import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from dragoman.infra.jobs import Job
from dragoman.infra.telemetry import TaskMetrics
from dragoman.services.tasks.store_retention import RetentionStore

_LOG = structlog.get_logger(__name__)


class Cleanup:
    """Every process has one; they take turns, batch by batch, and a batch that is interrupted is done again."""

    def __init__(self, store: RetentionStore, metrics: TaskMetrics, *, every_s: float, keep_tasks: timedelta) -> None:
        self._store = store
        self._metrics = metrics
        self._every_s = every_s
        self._keep_tasks = keep_tasks

    @property
    def job(self) -> Job:
        """Return the job that cleans up now and then."""
        return Job(name="task_cleanup", work=self.clean, every_s=self._every_s)

    async def clean(self) -> None:
        """Remove all that is due; what another process is removing is left to it."""
        started = time.perf_counter()
        contexts = await _all(self._store.empty_contexts)
        threads = await _all(self._store.forget_threads)
        tasks = await _all(lambda: self._store.remove_tasks(after=self._keep_tasks))
        took_s = time.perf_counter() - started
        self._metrics.cleaned(contexts=contexts, threads=threads, tasks=tasks, seconds=took_s, at=time.time())
        _LOG.info("cleanup.done", contexts=contexts, threads=threads, tasks=tasks, took_s=round(took_s, 3))


async def _all(remove: Callable[[], Awaitable[int | None]]) -> int:
    total = 0
    while removed := await remove():
        total += removed
    return total
