"""The job that removes what has had its time: stale conversations, and tasks that ended long ago."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from dragoman.errors import DragomanError
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

    async def run(self) -> None:
        """Clean up now and then; runs until it is cancelled, whatever becomes of the database meanwhile."""
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self.clean()
            except DragomanError as error:
                _LOG.warning("cleanup.failed", reason=error.message)
            except Exception:  # noqa: BLE001 - a worker loop: the next round may succeed
                _LOG.exception("cleanup.failed")

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
