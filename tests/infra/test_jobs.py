"""Background jobs: rounds, wake-ups, failures that are survived and reported, and the end."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from anyio import fail_after

from dragoman.errors import UpstreamUnavailable
from dragoman.infra.jobs import Job, JobGroup, JobState, backoff_s
from dragoman.infra.telemetry.logs import configure_logs
from dragoman.infra.telemetry.metrics import Metrics
from tests.infra.log_lines import Lines, restored_logging
from tests.patience import PATIENCE_S

NEVER_S = 86_400.0


@pytest.fixture(autouse=True)
def lines() -> Iterator[Lines]:
    with restored_logging():
        lines = Lines()
        configure_logs(format="json", level="info", security_log=None, stream=lines.stream)
        yield lines


class Rounds:
    """Work whose rounds a test ends one by one: each put into `outcomes` is returned or raised."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[int] = asyncio.Queue()
        self.outcomes: asyncio.Queue[BaseException | None] = asyncio.Queue()
        self.count = 0
        self.cancelled = False

    async def work(self) -> None:
        self.count += 1
        self.begun.put_nowait(self.count)
        try:
            outcome = await self.outcomes.get()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if outcome is not None:
            raise outcome

    async def next(self, outcome: BaseException | None = None) -> None:
        """Wait for a round to begin, and end it like this."""
        await self.begun.get()
        self.outcomes.put_nowait(outcome)


async def until(reached: Callable[[], bool]) -> None:
    """Let the loop turn until it is so."""
    while not reached():  # noqa: ASYNC110 - no time passes here
        await asyncio.sleep(0)


def group_of(*jobs: Job, metrics: Metrics | None = None) -> JobGroup:
    group = JobGroup((metrics or Metrics()).jobs, backoff=lambda failures, every_s: 0.0, steady_s=0.0)  # noqa: ARG005
    group.add(*jobs)
    return group


async def test_a_periodic_job_begins_at_once_and_goes_on_when_it_is_woken() -> None:
    rounds, wake = Rounds(), asyncio.Event()

    with fail_after(PATIENCE_S):
        async with group_of(Job(name="sweep", work=rounds.work, every_s=NEVER_S, wake=wake)):
            await rounds.next()
            wake.set()
            await rounds.next()

    assert rounds.count == 2


async def test_a_wake_up_during_a_round_is_not_lost() -> None:
    rounds, wake = Rounds(), asyncio.Event()

    with fail_after(PATIENCE_S):
        async with group_of(Job(name="sweep", work=rounds.work, every_s=NEVER_S, wake=wake)):
            await rounds.begun.get()
            wake.set()
            rounds.outcomes.put_nowait(None)
            await rounds.next()

    assert rounds.count == 2


async def test_a_periodic_job_goes_on_by_itself() -> None:
    rounds = Rounds()

    with fail_after(PATIENCE_S):
        async with group_of(Job(name="sweep", work=rounds.work, every_s=0.0)):
            for _ in range(3):
                await rounds.next()

    assert rounds.count >= 3


@pytest.mark.parametrize("error", [RuntimeError("boom"), UpstreamUnavailable("postgresql"), asyncio.CancelledError()])
async def test_a_job_survives_whatever_its_round_raises(error: BaseException) -> None:
    rounds = Rounds()

    with fail_after(PATIENCE_S):
        async with group_of(Job(name="sweep", work=rounds.work, every_s=NEVER_S)) as group:
            await rounds.next(error)
            await rounds.begun.get()
            (failing,) = group.states()
            rounds.outcomes.put_nowait(None)
            await until(lambda: not group.states()[0].failures)
            (recovered,) = group.states()

    assert (failing.status, failing.failures) == ("failing", 1)
    assert recovered == JobState("sweep", "running", 0, None)


def ends(ended: list[str]) -> Callable[[], Awaitable[None]]:
    async def work() -> None:
        ended.append("returned")

    return work


def cancels_itself(ended: list[str]) -> Callable[[], Awaitable[None]]:
    async def work() -> None:
        ended.append("cancelled")
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    return work


def raises_at_once(ended: list[str]) -> Callable[[], Awaitable[None]]:
    def work() -> Awaitable[None]:
        ended.append("raised")
        raise LookupError("before there was anything to wait for")

    return work


@pytest.mark.parametrize(
    ("make", "reason"), [(ends, "ended"), (cancels_itself, "cancelled"), (raises_at_once, "LookupError")]
)
async def test_work_that_should_last_is_started_again_however_it_ended(
    make: Callable[[list[str]], Callable[[], Awaitable[None]]], reason: str
) -> None:
    ended: list[str] = []

    with fail_after(PATIENCE_S):
        async with group_of(Job(name="listen", work=make(ended))) as group:
            await until(lambda: len(ended) >= 3)
            (state,) = group.states()

    assert (state.status, state.reason) == ("failing", reason)


async def test_work_that_lasts_is_well_again_once_it_has_run_for_a_while() -> None:
    rounds = Rounds()

    with fail_after(PATIENCE_S):
        async with group_of(Job(name="listen", work=rounds.work)) as group:
            await rounds.next(RuntimeError("boom"))
            await rounds.begun.get()
            await until(lambda: not group.states()[0].failures)

            assert group.states() == [JobState("listen", "running", 0, None)]

    assert rounds.cancelled


async def test_an_unexpected_error_is_logged_once_with_its_trace_and_its_end_too(lines: Lines) -> None:
    rounds = Rounds()

    with fail_after(PATIENCE_S):
        async with group_of(Job(name="sweep", work=rounds.work, every_s=0.0)):
            for _ in range(6):
                await rounds.next(RuntimeError("boom"))
            await rounds.next()
            await rounds.begun.get()

    failed = [line for line in lines.all() if line["message"] == "job.failed"]
    assert [line["failures"] for line in failed] == [1, 2, 4]
    assert [line for line in failed if "boom" in str(line)] == failed[:1]
    assert {line["job"] for line in failed} == {"sweep"}
    (recovered,) = [line for line in lines.all() if line["message"] == "job.recovered"]
    assert recovered["failures"] == 6


async def test_an_error_of_ours_is_one_line_without_a_trace(lines: Lines) -> None:
    rounds = Rounds()

    with fail_after(PATIENCE_S):
        async with group_of(Job(name="sweep", work=rounds.work, every_s=NEVER_S)):
            await rounds.next(UpstreamUnavailable("postgresql"))
            await rounds.begun.get()

    (line,) = lines.all()
    assert line["reason"].startswith("postgresql is unavailable")
    assert "Traceback" not in lines.text


async def test_failures_and_the_last_success_are_counted_by_job() -> None:
    rounds, metrics = Rounds(), Metrics()

    with fail_after(PATIENCE_S):
        async with group_of(Job(name="sweep", work=rounds.work, every_s=0.0), metrics=metrics):
            await rounds.next(RuntimeError("boom"))
            await rounds.begun.get()
            failing = metrics.render()[0].decode()
            rounds.outcomes.put_nowait(None)
            await rounds.begun.get()
            well = metrics.render()[0].decode()

    assert 'dragoman_job_failures_total{job="sweep"} 1.0' in failing
    assert 'dragoman_job_up{job="sweep"} 0.0' in failing
    assert 'dragoman_job_last_success_timestamp_seconds{job="sweep"}' not in failing
    assert 'dragoman_job_up{job="sweep"} 1.0' in well
    assert 'dragoman_job_last_success_timestamp_seconds{job="sweep"}' in well


async def test_stopping_cancels_the_work_and_waits_for_its_end() -> None:
    ended: list[str] = []
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("tidied up")

    group = group_of(Job(name="listen", work=work))
    group.start()
    with fail_after(PATIENCE_S):
        await begun.wait()
        await group.stop()

    assert ended == ["tidied up"]
    assert [state.status for state in group.states()] == ["stopped"]


def test_a_name_is_given_once_and_only_rounds_can_be_woken() -> None:
    rounds = Rounds()

    with pytest.raises(ValueError, match="already"):
        group_of(Job(name="sweep", work=rounds.work), Job(name="sweep", work=rounds.work))
    with pytest.raises(ValueError, match="woken"):
        Job(name="listen", work=rounds.work, wake=asyncio.Event())


def test_the_backoff_grows_to_a_bound_that_rare_jobs_have_higher() -> None:
    frequent = [backoff_s(failures, 1.0) for failures in (1, 2, 3, 4, 5, 500)]
    rare = [backoff_s(failures, 3600.0) for failures in (1, 5, 8, 500)]

    assert frequent == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert rare == [0.5, 8.0, 60.0, 60.0]
