"""Health: what probes are told, what it costs the dependencies, and the pulse."""

import asyncio
from collections.abc import Iterator

import pytest
from anyio import fail_after

from dragoman.infra.jobs import Job, JobGroup
from dragoman.infra.telemetry.health import Check, Degraded, Health
from dragoman.infra.telemetry.logs import configure_logs
from dragoman.infra.telemetry.metrics import Metrics
from tests.infra.log_lines import Lines, restored_logging
from tests.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    with restored_logging():
        yield


async def well() -> None:
    """Nothing to report."""


async def never() -> None:
    await asyncio.Event().wait()


def failing(error: Exception) -> Check:
    async def check() -> None:
        raise error

    return check


def health_with(timeout_s: float = PATIENCE_S, **checks: tuple[Check, bool]) -> Health:
    health = Health(version="1.2.3", metrics=Metrics(), timeout_s=timeout_s)
    for name, (check, critical) in checks.items():
        health.register(name, check, critical=critical)
    return health


@pytest.mark.req("GW-105")
async def test_a_healthy_report_has_exactly_the_promised_shape() -> None:
    now = [100.0]
    health = Health(
        version="1.2.3",
        metrics=Metrics(),
        breakers=lambda: ({"jwks": "closed"}, {"webhook": 2}),
        clock=lambda: now[0],
    )
    health.register("postgresql", well, critical=True)
    now[0] = 142.5

    body = (await health.report()).model_dump()

    assert body["dependencies"]["postgresql"].pop("latency_ms") >= 0
    assert body == {
        "status": "ok",
        "version": "1.2.3",
        "uptime_s": 42.5,
        "dependencies": {"postgresql": {"status": "up"}},
        "breakers": {"jwks": "closed"},
        "tenant_breakers": {"webhook": 2},
    }


@pytest.mark.req("GW-105")
@pytest.mark.parametrize(
    ("postgresql", "valkey", "status"),
    [(True, True, "ok"), (True, False, "degraded"), (False, True, "down"), (False, False, "down")],
)
async def test_only_a_critical_dependency_takes_the_service_down(postgresql: bool, valkey: bool, status: str) -> None:
    broken = failing(OSError("away"))
    health = health_with(postgresql=(well if postgresql else broken, True), valkey=(well if valkey else broken, False))

    assert (await health.report()).status == status


async def test_an_open_breaker_degrades() -> None:
    health = Health(version="1", metrics=Metrics(), breakers=lambda: ({"jwks": "open"}, {}))

    assert (await health.report()).status == "degraded"


@pytest.mark.req("GW-105")
async def test_details_leak_neither_addresses_nor_credentials() -> None:
    leaky = ConnectionRefusedError("connect to postgresql://u:hunter2@10.0.0.7:5432 failed")
    health = health_with(
        # The others fail before they wait for anything.
        timeout_s=0.05,
        postgresql=(failing(leaky), True),
        valkey=(failing(Degraded("counting in memory")), False),
        slow=(never, False),
        late=(failing(TimeoutError("10.0.0.8")), False),
    )

    with fail_after(PATIENCE_S):
        body = (await health.report()).model_dump_json()
        details = {name: found.detail for name, found in (await health.report()).dependencies.items()}

    assert "10.0.0" not in body
    assert "hunter2" not in body
    assert details == {
        "postgresql": "ConnectionRefusedError",
        "valkey": "counting in memory",
        "slow": "no answer within 0.05 s",
        "late": "TimeoutError",
    }


@pytest.mark.req("GW-105")
async def test_many_probes_ask_the_dependencies_once_a_second() -> None:
    now, asked = [0.0], [0]

    async def check() -> None:
        asked[0] += 1
        await asyncio.sleep(0)

    health = Health(version="1", metrics=Metrics(), clock=lambda: now[0])
    health.register("postgresql", check, critical=True)

    with fail_after(PATIENCE_S):
        await asyncio.gather(*(health.report() for _ in range(100)))
        now[0] = 0.99
        await health.report()
        within_a_second = asked[0]
        now[0] = 1.0
        await health.report()

    assert (within_a_second, asked[0]) == (1, 2)


async def test_checks_run_at_the_same_time() -> None:
    """Each waits for the other: one after the other they would both time out."""
    both = asyncio.Barrier(2)

    async def meet() -> None:
        await both.wait()

    health = Health(version="1", metrics=Metrics(), timeout_s=PATIENCE_S)
    health.register("postgresql", meet, critical=True)
    health.register("valkey", meet, critical=True)

    with fail_after(PATIENCE_S):
        report = await health.report()

    assert report.status == "ok"


async def test_a_probe_that_leaves_does_not_spoil_the_next() -> None:
    started = asyncio.Event()

    async def check() -> None:
        if not started.is_set():
            started.set()
            await asyncio.Event().wait()

    health = Health(version="1", metrics=Metrics(), timeout_s=PATIENCE_S)
    health.register("postgresql", check, critical=True)

    with fail_after(PATIENCE_S):
        leaving = asyncio.create_task(health.report())
        await started.wait()
        leaving.cancel()
        report = await health.report()

    assert report.status == "ok"


@pytest.mark.req("GW-105", "GW-408")
async def test_the_pulse_sets_the_gauges_and_writes_a_line_each_interval() -> None:
    kept, metrics, beats = Lines(), Metrics(), asyncio.Semaphore(0)
    configure_logs(format="json", level="info", security_log=None, stream=kept.stream)

    def breakers() -> tuple[dict[str, str], dict[str, int]]:
        beats.release()
        if len(kept.all()) == 1:
            raise RuntimeError("one bad beat")
        return {"jwks": "closed"}, {}

    health = Health(version="1", metrics=metrics, breakers=breakers, reuse_s=0)
    health.register("postgresql", failing(OSError()), critical=True)
    jobs = JobGroup(metrics.jobs, backoff=lambda failures, every_s: 0.0)  # noqa: ARG005
    jobs.add(Job(name="health_pulse", work=lambda: health.pulse(interval_s=0.001), every_s=0.0))
    with fail_after(PATIENCE_S):
        async with jobs:
            for _ in range(4):
                await beats.acquire()

    first, second, third, fourth = kept.all()[:4]
    assert (first["message"], first["severity"], first["status"]) == ("health", "INFO", "down")
    assert (second["message"], third["message"], fourth["message"]) == ("job.failed", "health", "job.recovered")
    body = metrics.render()[0].decode()
    assert 'dragoman_dependency_up{dependency="postgresql"} 0.0' in body
    assert "dragoman_event_loop_lag_seconds " in body
    assert "dragoman_process_resident_bytes 0.0" not in body
