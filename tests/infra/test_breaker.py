"""Breakers: an upstream that fails is left alone, tried once, and taken back."""

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from anyio import fail_after

from dragoman.errors import Conflict, UpstreamUnavailable
from dragoman.infra.breaker import Breakers
from dragoman.infra.telemetry.logs import configure_logs
from dragoman.infra.telemetry.metrics import Metrics
from tests.infra.log_lines import Lines, restored_logging
from tests.patience import PATIENCE_S

AWAY = httpx.ConnectError("away")


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    with restored_logging():
        yield


class Rig:
    """Breakers with a clock in hand."""

    def __init__(self, threshold: int = 3) -> None:
        self.now = 0.0
        self.metrics = Metrics()
        self.breakers = Breakers(threshold, 5.0, metrics=self.metrics, clock=lambda: self.now)

    @property
    def state(self) -> str:
        return self.breakers.states()["jwks"]

    async def call(self, error: BaseException | None = None, *, wait: asyncio.Event | None = None) -> None:
        async with self.breakers.guard("jwks"):
            if wait is not None:
                await wait.wait()
            if error is not None:
                raise error

    async def fail(self, times: int = 1) -> None:
        for _ in range(times):
            with pytest.raises(httpx.ConnectError):
                await self.call(AWAY)


@pytest.mark.req("GW-208")
async def test_failures_in_a_row_open_it_and_callers_learn_when_to_return() -> None:
    rig = Rig(threshold=3)

    await rig.fail(3)
    rig.now = 1.5
    with pytest.raises(UpstreamUnavailable) as refused:
        await rig.call()

    assert (rig.state, refused.value.retry_after_s) == ("open", 4)
    assert refused.value.details == {"upstream": "jwks"}


@pytest.mark.req("GW-208")
async def test_a_success_in_between_starts_the_count_anew() -> None:
    rig = Rig(threshold=3)

    await rig.fail(2)
    await rig.call()
    await rig.fail(2)

    assert rig.state == "closed"


@pytest.mark.req("GW-208")
async def test_errors_of_the_domain_and_cancellations_do_not_count() -> None:
    rig = Rig(threshold=1)

    with pytest.raises(Conflict):
        await rig.call(Conflict("no"))
    with pytest.raises(asyncio.CancelledError):
        await rig.call(asyncio.CancelledError())

    assert rig.state == "closed"


async def test_each_call_says_what_counts() -> None:
    rig = Rig(threshold=1)

    with pytest.raises(KeyError):
        async with rig.breakers.guard("jwks", failures=(KeyError,)):
            raise KeyError

    assert rig.state == "open"


@pytest.mark.req("GW-208")
async def test_after_the_cooldown_one_call_is_the_trial_and_the_others_are_refused() -> None:
    rig, wait = Rig(threshold=1), asyncio.Event()
    await rig.fail()
    rig.now = 5.0

    with fail_after(PATIENCE_S):
        trial = asyncio.create_task(rig.call(wait=wait))
        crowd = await asyncio.gather(*(rig.call() for _ in range(50)), return_exceptions=True)
        during = rig.state
        wait.set()
        await trial

    assert [type(answer) for answer in crowd] == [UpstreamUnavailable] * 50
    assert (during, rig.state) == ("half-open", "closed")


@pytest.mark.req("GW-208")
async def test_a_failed_trial_opens_it_for_another_cooldown() -> None:
    rig = Rig(threshold=3)
    await rig.fail(3)

    rig.now = 5.0
    await rig.fail()
    rig.now = 9.9
    with pytest.raises(UpstreamUnavailable) as refused:
        await rig.call()

    assert (rig.state, refused.value.retry_after_s) == ("open", 1)


async def test_a_trial_that_was_given_up_leaves_its_place_to_the_next() -> None:
    rig, never = Rig(threshold=1), asyncio.Event()
    await rig.fail()
    rig.now = 5.0

    with fail_after(PATIENCE_S):
        trial = asyncio.create_task(rig.call(wait=never))
        await asyncio.sleep(0)
        trial.cancel()
        await asyncio.gather(trial, return_exceptions=True)
        given_up = rig.state
        await rig.call()

    assert (given_up, rig.state) == ("open", "closed")


async def test_a_straggler_from_before_does_not_close_it() -> None:
    rig, wait = Rig(threshold=1), asyncio.Event()

    with fail_after(PATIENCE_S):
        straggler = asyncio.create_task(rig.call(wait=wait))
        await asyncio.sleep(0)
        await rig.fail()
        wait.set()
        await straggler

    assert rig.state == "open"


async def test_upstreams_do_not_share_a_breaker() -> None:
    rig = Rig(threshold=1)

    await rig.fail()
    async with rig.breakers.guard("smtp"):
        pass

    assert rig.breakers.states() == {"jwks": "open", "smtp": "closed"}


@pytest.mark.req("GW-208")
async def test_every_move_is_logged_and_measured() -> None:
    kept, rig = Lines(), Rig(threshold=1)
    configure_logs(format="json", level="info", security_log=None, stream=kept.stream)

    await rig.fail()
    opened = rig.metrics.render()[0]
    rig.now = 5.0
    await rig.call()
    closed = rig.metrics.render()[0]

    moves = [(line["before"], line["after"]) for line in kept.all()]
    assert moves == [("closed", "open"), ("open", "half-open"), ("half-open", "closed")]
    assert b'dragoman_breaker_state{upstream="jwks"} 2.0' in opened
    assert b'dragoman_breaker_state{upstream="jwks"} 0.0' in closed
