"""Whether this process can do its work: asked by probes, and by a pulse that sets the gauges and writes a line."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, Literal

import structlog
from pydantic import BaseModel, Field

from dragoman.infra.telemetry.metrics import Metrics
from dragoman.infra.telemetry.process import sample_process

# What a check returns is told beside its being up.
Check = Callable[[], Awaitable[str | None]]
_LAG_SAMPLE_S: Final = 0.5


class Degraded(Exception):
    """A check found something that may be told to the world in these words."""


def _is_none(value: object) -> bool:
    return value is None


class DependencyHealth(BaseModel, frozen=True):
    """What one check found; `detail` never holds an address or what an exception says."""

    status: Literal["up", "down"]
    latency_ms: float
    detail: str | None = Field(default=None, exclude_if=_is_none)


class HealthReport(BaseModel, frozen=True):
    """The body of the health endpoint, as it goes over the wire.

    `tenant_breakers` counts those of tenants' own upstreams that are not closed. They say nothing about this server.
    """

    status: Literal["ok", "degraded", "down"]
    version: str
    uptime_s: float
    dependencies: dict[str, DependencyHealth]
    breakers: dict[str, str]
    tenant_breakers: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class _Registered:
    check: Check
    critical: bool


class Health:
    """Runs the checks of what this process needs, all at once, at most once a second."""

    def __init__(
        self,
        *,
        version: str,
        metrics: Metrics,
        breakers: Callable[[], tuple[dict[str, str], dict[str, int]]] = lambda: ({}, {}),
        timeout_s: float = 2.0,
        reuse_s: float = 1.0,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._version = version
        self._metrics = metrics
        self._breakers = breakers
        self._timeout_s = timeout_s
        self._reuse_s = reuse_s
        self._clock = clock
        self._started = clock()
        self._checks: dict[str, _Registered] = {}
        self._running = asyncio.Lock()
        self._last: tuple[float, HealthReport] | None = None
        self._log: Any = structlog.get_logger("dragoman.health")

    def register(self, name: str, check: Check, *, critical: bool) -> None:
        """Add a check: it returns when all is well, perhaps with a word on how, and raises otherwise.

        Without a critical one there is no service.
        """
        self._checks[name] = _Registered(check, critical)

    async def report(self) -> HealthReport:
        """How things stand; a report younger than a second is given again, and probes share one that is under way."""
        async with self._running:
            if self._last is not None and self._clock() - self._last[0] < self._reuse_s:
                return self._last[1]
            report = await self._run()
            self._last = (self._clock(), report)
            return report

    async def pulse(self, *, interval_s: float = 10.0) -> None:
        """Measure the event loop for an interval, then report, set the gauges and write one line."""
        await self._beat(await self._rest(interval_s))

    async def _run(self) -> HealthReport:
        names = list(self._checks)
        found = await asyncio.gather(*(self._ask(self._checks[name].check) for name in names))
        dependencies = dict(zip(names, found, strict=True))
        breakers, of_tenants = self._breakers()
        return HealthReport(
            status=self._status(dependencies, breakers),
            version=self._version,
            uptime_s=round(self._clock() - self._started, 1),
            dependencies=dependencies,
            breakers=breakers,
            tenant_breakers=of_tenants,
        )

    async def _ask(self, check: Check) -> DependencyHealth:
        started = perf_counter()
        detail: str | None = None
        up = False
        deadline = asyncio.timeout(self._timeout_s)
        try:
            async with deadline:
                detail = await check()
            up = True
        except Degraded as told:
            detail = str(told)
        except Exception as error:  # noqa: BLE001 - a guard: whatever a driver raises, the probe is answered
            late = isinstance(error, TimeoutError) and deadline.expired()
            detail = f"no answer within {self._timeout_s:g} s" if late else type(error).__name__
        latency_ms = round((perf_counter() - started) * 1000, 1)
        return DependencyHealth(status="up" if up else "down", latency_ms=latency_ms, detail=detail)

    def _status(
        self, dependencies: dict[str, DependencyHealth], breakers: dict[str, str]
    ) -> Literal["ok", "degraded", "down"]:
        down = [name for name, found in dependencies.items() if found.status == "down"]
        if any(self._checks[name].critical for name in down):
            return "down"
        return "degraded" if down or any(state != "closed" for state in breakers.values()) else "ok"

    async def _rest(self, interval_s: float) -> float:
        """Wait for the interval in short naps; return by how much the worst of them came late."""
        worst_s = 0.0
        ends = perf_counter() + interval_s
        while (left_s := ends - perf_counter()) > 0:
            nap_s = min(_LAG_SAMPLE_S, left_s)
            lay_down = perf_counter()
            await asyncio.sleep(nap_s)
            worst_s = max(worst_s, perf_counter() - lay_down - nap_s)
        return worst_s

    async def _beat(self, lag_s: float) -> None:
        report = await self.report()
        for name, found in report.dependencies.items():
            up = found.status == "up"
            self._metrics.dependencies.checked(name, up=up, seconds=found.latency_ms / 1000)
        sample = sample_process()
        self._metrics.process.sampled(sample, loop_lag_s=lag_s)
        self._log.info(
            "health",
            status=report.status,
            dependencies={name: found.model_dump() for name, found in report.dependencies.items()},
            breakers=report.breakers,
            tenant_breakers=report.tenant_breakers,
            loop_lag_ms=round(lag_s * 1000, 1),
            resident_mb=round(sample.resident_bytes / 1_048_576, 1),
            open_fds=sample.open_fds,
        )
