"""Background jobs: work that repeats or lasts, survives its own failures, and reports them.

A job ends only when its group is stopped. A round that fails is logged, counted, and followed by another one after a
backoff; work that should last and ends for any other reason is started again in the same way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from time import time
from types import TracebackType
from typing import Final, Literal, Self

import structlog

from dragoman.backoff import jittered
from dragoman.errors import DragomanError
from dragoman.infra.telemetry.job_metrics import JobMetrics

_LOG = structlog.get_logger(__name__)
_FIRST_BACKOFF_S: Final = 0.5
# Short enough for the process to work again a few seconds after the database is back.
_LONGEST_BACKOFF_S: Final = 5.0
# A job with a long period may also wait longer after failures.
_LONGEST_RARE_BACKOFF_S: Final = 60.0
_STEADY_S: Final = 5.0
# The longest wait after so many failures in a row of a job with this period.
Backoff = Callable[[int, float | None], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Work that a process does in the background.

    With `every_s`, `work` is one round: it runs at once, then again after that time or as soon as `wake` is set. Rounds
    never overlap; a round that leaves something to do sets `wake` itself. After a wake-up the job waits `gather_s`,
    so that events close together share a round. Without `every_s`, `work` runs until it is cancelled.
    """

    name: str
    work: Callable[[], Awaitable[object]]
    every_s: float | None = None
    wake: asyncio.Event | None = None
    gather_s: float = 0.0

    def __post_init__(self) -> None:
        if self.every_s is None and (self.wake is not None or self.gather_s):
            raise ValueError(f"job {self.name!r} lasts: only a job with every_s can be woken")


@dataclass(frozen=True, slots=True)
class JobState:
    """The state of a job; `failures` counts those since it last succeeded, and `reason` may be shown to anyone."""

    name: str
    status: Literal["running", "failing", "stopped"]
    failures: int
    reason: str | None


class JobGroup:
    """The jobs of one process, started and stopped together; use it as `async with`, or by `start` and `stop`."""

    def __init__(self, metrics: JobMetrics, *, backoff: Backoff | None = None, steady_s: float = _STEADY_S) -> None:
        self._metrics = metrics
        self._backoff = backoff or backoff_s
        self._steady_s = steady_s
        self._runners: dict[str, _Runner] = {}

    def add(self, *jobs: Job) -> None:
        """Add jobs that `start` will run.

        Raises:
            ValueError: a job of this name was added before.
        """
        for job in jobs:
            if job.name in self._runners:
                raise ValueError(f"there is a job {job.name!r} already")
            self._runners[job.name] = _Runner(job, self._metrics, backoff=self._backoff, steady_s=self._steady_s)

    def start(self) -> None:
        """Start all jobs."""
        for runner in self._runners.values():
            runner.start()

    async def stop(self) -> None:
        """Cancel all jobs and wait until they have ended."""
        await asyncio.gather(*(runner.stop() for runner in self._runners.values()))

    def states(self) -> Sequence[JobState]:
        """Return the state of every job, in the order in which they were added."""
        return [runner.state() for runner in self._runners.values()]

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        await self.stop()


def backoff_s(failures: int, every_s: float | None) -> float:
    """Return the longest wait after this many failures in a row; jitter takes up to half of it away."""
    longest_s = max(_LONGEST_BACKOFF_S, min(every_s or 0.0, _LONGEST_RARE_BACKOFF_S))
    return min(_FIRST_BACKOFF_S * 2 ** min(failures - 1, 10), longest_s)


class _Runner:
    """Runs one job."""

    def __init__(self, job: Job, metrics: JobMetrics, *, backoff: Backoff, steady_s: float) -> None:
        self._job = job
        self._metrics = metrics
        self._backoff = backoff
        self._steady_s = steady_s
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        self._reason: str | None = None

    def start(self) -> None:
        self._metrics.started(self._job.name)
        self._task = asyncio.create_task(self._run(), name=f"job {self._job.name}")

    async def stop(self) -> None:
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait({self._task})
        self._metrics.stopped(self._job.name)

    def state(self) -> JobState:
        if self._task is None or self._task.done():
            return JobState(self._job.name, "stopped", self._failures, self._reason)
        status = "failing" if self._failures else "running"
        return JobState(self._job.name, status, self._failures, self._reason)

    async def _run(self) -> None:
        while True:
            if self._job.wake is not None:
                self._job.wake.clear()
            if await self._round():
                self._succeeded()
                await self._wait_for_next_round()
            else:
                # Jitter: processes that failed together do not all come back together. A wake-up does not shorten the
                # wait, or a busy process would not back off at all.
                longest_s = self._backoff(self._failures, self._job.every_s)
                await asyncio.sleep(jittered(longest_s))

    async def _round(self) -> bool:
        """Run the work once; return whether it succeeded. Work that should last has failed when it ends."""
        # A task of its own: cancelling the work does not cancel the job.
        work = asyncio.create_task(self._work(), name=f"work of job {self._job.name}")
        try:
            if self._job.every_s is None:
                await asyncio.wait({work}, timeout=self._steady_s)
                if not work.done():
                    self._succeeded()
            await asyncio.wait({work})
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait({work})
        if work.cancelled():
            self._failed("cancelled", "its work was cancelled from elsewhere", None)
        elif (error := work.exception()) is not None:
            self._failed(_public_reason(error), _message(error), error)
        elif self._job.every_s is None:
            self._failed("ended", "its work ended by itself", None)
        else:
            return True
        return False

    async def _work(self) -> None:
        await self._job.work()

    async def _wait_for_next_round(self) -> None:
        if self._job.wake is None:
            await asyncio.sleep(self._job.every_s or 0.0)
            return
        try:
            async with asyncio.timeout(self._job.every_s):
                await self._job.wake.wait()
        except TimeoutError:
            return
        if self._job.gather_s:
            await asyncio.sleep(self._job.gather_s)

    def _succeeded(self) -> None:
        self._metrics.succeeded(self._job.name, at=time())
        if self._failures:
            _LOG.info("job.recovered", job=self._job.name, failures=self._failures)
        self._failures, self._reason = 0, None

    def _failed(self, reason: str, message: str, error: BaseException | None) -> None:
        self._failures += 1
        self._metrics.failed(self._job.name)
        repeated = reason == self._reason
        self._reason = reason
        fields = {"job": self._job.name, "reason": message, "failures": self._failures}
        if repeated:
            # The first failure is logged in full; repetitions of the same reason less and less often.
            if self._failures & (self._failures - 1) == 0:
                _LOG.warning("job.failed", **fields)
        elif error is None or isinstance(error, DragomanError):
            _LOG.warning("job.failed", **fields)
        else:
            _LOG.error("job.failed", **fields, exc_info=error)


def _public_reason(error: BaseException) -> str:
    """Return what may be shown to anyone: the code or the type of an error, and never its message."""
    return error.code if isinstance(error, DragomanError) else type(error).__name__


def _message(error: BaseException) -> str:
    return error.message if isinstance(error, DragomanError) else type(error).__name__
