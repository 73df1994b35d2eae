import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any

import uvloop
from tests.harness import data_dir

from bench.spread import Spread
from bench.subject import Effort
from bench.table import Line, Outcome
from dragoman.errors import UpstreamUnavailable
from dragoman.infra.embedded import EmbeddedServices
from dragoman.infra.limits import Limit, Limiter, Revocable, Revocation

MOST_P99_MS = 1.0
CONCURRENT = 8
_BLOCKS = 10
_PAUSE_S = 0.2
_LIMITS = tuple(Limit(name, f"{name}:bench", 1_000_000_000) for name in ("user", "tenant", "skill"))
_CREDENTIAL = Revocable("bench-credential", "bench", time.time())


class NoRevocations:
    """Nothing was ever revoked."""

    async def load(self, partition: str) -> AsyncIterator[Sequence[Revocation]]:
        """None."""
        del partition
        yield ()


def run(effort: Effort) -> Outcome:
    """Three limits and revocation in one call, beside a PING over the same connection."""
    return uvloop.run(_run(effort.checks))


async def _run(checks: int) -> Outcome:
    at = data_dir()
    embedded = EmbeddedServices(at, postgres=False)
    await embedded.start()
    limiter = Limiter(embedded.redis_url, revocations=NoRevocations())
    try:
        await limiter.start()
        return await _compare(limiter, checks)
    finally:
        await limiter.stop()
        await embedded.stop()
        await asyncio.to_thread(shutil.rmtree, at.parent, ignore_errors=True)


async def _compare(limiter: Limiter, checks: int) -> Outcome:
    async def check() -> None:
        verdict = await limiter.check("bench", _LIMITS, _CREDENTIAL)
        if verdict.degraded:
            raise UpstreamUnavailable("valkey")
        if not verdict.allowed:
            raise RuntimeError(f"this is not what was to be measured: {verdict}")

    async def ping() -> None:
        await limiter.ping()

    outcome = Outcome("Limiter: three limits and revocation, beside a PING on the same connection")
    away = 0
    for at_once in (1, CONCURRENT):
        took: dict[str, list[float]] = {"check": [], "ping": []}
        away += (await _time(check, checks // _BLOCKS, at_once))[1]
        for _ in range(_BLOCKS):
            for name, call in (("ping", ping), ("check", check)):
                seconds, missed = await _time(call, checks // _BLOCKS, at_once)
                took[name] += seconds
                away += missed
        checked, pinged = Spread.of(took["check"]), Spread.of(took["ping"])
        name = "one at a time" if at_once == 1 else f"{at_once} at once"
        outcome.lines += [
            Line(f"PING, {name}", f"{pinged.p50_ms:.3f} / {pinged.p99_ms:.3f} ms"),
            Line(
                f"check, {name}",
                f"{checked.p50_ms:.3f} / {checked.p99_ms:.3f} ms",
                checked.p50_ms / pinged.p50_ms,
                target=f"p99 < {MOST_P99_MS:g} ms",
                met=checked.p99_ms < MOST_P99_MS,
            ),
        ]
        outcome.figures[name] = {"check": asdict(checked), "ping": asdict(pinged)}
    outcome.figures["away"] = away
    outcome.note = "Measured are p50 and p99; the ratio says how many times as long as a PING the median takes."
    if away:
        outcome.note += f"\n  {away} calls found Valkey away (no answer in time) and are not in these figures."
    return outcome


async def _time(call: Callable[[], Awaitable[Any]], times: int, at_once: int) -> tuple[list[float], int]:
    """How long each call took, and how many found Valkey away: those were decided in memory, which proves nothing."""
    took: list[float] = []
    away = 0

    async def one_by_one() -> None:
        nonlocal away
        for _ in range(times // at_once):
            started = time.perf_counter()
            try:
                await call()
            except UpstreamUnavailable:
                away += 1
                await asyncio.sleep(_PAUSE_S)
                continue
            took.append(time.perf_counter() - started)

    await asyncio.gather(*(one_by_one() for _ in range(at_once)))
    return took, away
