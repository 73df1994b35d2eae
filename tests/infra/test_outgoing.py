"""Clients of upstreams: a host that fails is left alone, for those whom it fails, and taken back."""

import threading
from uuid import UUID, uuid4

import httpx
import pytest

from dragoman.errors import UpstreamUnavailable
from dragoman.infra.breaker import MOST_OF_TENANT, Breakers
from dragoman.infra.outbound import Allowed, Clients, OutboundRefused, Upstream
from dragoman.infra.telemetry.metrics import Metrics
from dragoman.kit import LlmRequest, OpenAICompatible, Thread
from tests.receiver import Receiver, Reply

pytestmark = pytest.mark.anyio
ACME, RIVAL = uuid4(), uuid4()


class Rig:
    """Clients with a clock in hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.metrics = Metrics()
        self.breakers = Breakers(3, 5.0, metrics=self.metrics, clock=lambda: self.now)
        self.clients = Clients(self.breakers, Allowed.of(["127.0.0.1"]))
        self.webhooks = self.clients.of_tenants(Upstream.WEBHOOK, timeout_s=30)

    async def post(self, url: str, tenant: UUID = ACME) -> int:
        return (await self.webhooks.of(tenant).post(url)).status_code

    async def fail(self, url: str, tenant: UUID = ACME) -> list[int]:
        return [await self.post(url, tenant) for _ in range(3)]


@pytest.mark.req("GW-208")
async def test_a_host_that_fails_is_left_alone_and_taken_back() -> None:
    """Depth review F6: nothing but the token issuer had a breaker."""
    rig = Rig()
    with Receiver(*[Reply(503)] * 3) as receiver:
        failed = await rig.fail(receiver.url)
        with pytest.raises(UpstreamUnavailable) as refused:
            await rig.post(receiver.url)
        seen = receiver.received.qsize()
        rig.now = 5.0
        taken_back = [await rig.post(receiver.url), await rig.post(receiver.url)]

    assert failed == [503] * 3
    assert seen == 3
    assert (refused.value.code, refused.value.retry_after_s) == ("UPSTREAM_UNAVAILABLE", 5)
    assert taken_back == [200, 200]
    assert rig.breakers.open_of_tenants() == {"webhook": 0}


async def test_no_tenant_opens_the_breaker_of_another() -> None:
    rig = Rig()
    with Receiver(*[Reply(500)] * 3) as receiver:
        await rig.fail(receiver.url, RIVAL)

        assert await rig.post(receiver.url, ACME) == 200
        with pytest.raises(UpstreamUnavailable):
            await rig.post(receiver.url, RIVAL)
        with pytest.raises(UpstreamUnavailable):
            await rig.webhooks.check(RIVAL, receiver.url)
        await rig.webhooks.check(ACME, receiver.url)

    assert rig.breakers.states() == {}
    assert rig.breakers.open_of_tenants() == {"webhook": 1}
    assert b'dragoman_tenant_breakers_open{upstream="webhook"} 1.0' in rig.metrics.render()[0]


async def test_a_refusal_by_the_receiver_or_by_the_guard_says_nothing_against_the_host() -> None:
    rig = Rig()
    with Receiver(*[Reply(404)] * 3) as receiver:
        await rig.fail(receiver.url)
    for _ in range(3):
        with pytest.raises(OutboundRefused):
            await rig.post("https://10.0.0.1/hook")

    assert rig.breakers.open_of_tenants() == {"webhook": 0}


async def test_a_tenant_whose_hosts_fail_by_the_hundred_loses_its_own_breakers_alone() -> None:
    rig = Rig()

    async def fail(tenant: UUID, port: int) -> None:
        for _ in range(3):
            async with rig.breakers.guard("git", host=f"git.example.com:{port}", tenant=tenant) as call:
                call.failed = True

    await fail(ACME, 1)
    for port in range(2 * MOST_OF_TENANT):
        await fail(RIVAL, port)

    assert rig.breakers.open_of_tenants()["git"] == MOST_OF_TENANT + 1
    with pytest.raises(UpstreamUnavailable):
        rig.breakers.check("git", host="git.example.com:1", tenant=ACME)
    rig.breakers.check("git", host="git.example.com:1", tenant=RIVAL)


async def test_a_receiver_that_is_silent_counts_whoever_ran_out_of_patience() -> None:
    """A limit around the request would look like a cancellation, and a silent host would never be left alone."""
    rig = Rig()
    # Long enough to be connected: uvloop leaks the socket of a connection that is cancelled while it is being made.
    hasty, never = rig.clients.of_tenants(Upstream.WORKER, answer_s=0.2), threading.Event()
    with Receiver(*[Reply(held=never)] * 3) as receiver:
        for _ in range(3):
            with pytest.raises(httpx.TimeoutException):
                await hasty.of(ACME).post(receiver.url)

        with pytest.raises(UpstreamUnavailable):
            await hasty.of(ACME).post(receiver.url)
        never.set()


async def test_a_model_that_fails_is_left_alone_for_all() -> None:
    rig = Rig()

    async def no_pause(_: float) -> None:
        return

    def connect(**options: object) -> httpx.AsyncClient:
        return rig.clients.own(Upstream.MODEL, **options)

    with Receiver(*[Reply(500)] * 9) as receiver:
        async with OpenAICompatible(receiver.url, "m", sleep=no_pause, connect=connect) as model:
            with pytest.raises(UpstreamUnavailable):
                await model.generate(LlmRequest(Thread.from_user("hello")))
            with pytest.raises(UpstreamUnavailable) as refused:
                await model.generate(LlmRequest(Thread.from_user("hello")))
        seen = receiver.received.qsize()

    assert seen == 3
    assert refused.value.retry_after_s == 5
    assert rig.breakers.states() == {"model": "open"}
