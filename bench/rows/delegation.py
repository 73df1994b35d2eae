"""Delegated tasks that have nothing to do: a backlog, a steady stream, and what each promise costs."""

from dataclasses import asdict
from typing import Any

import uvloop

from bench.delegated import Took, Without, execute, node, postgres
from bench.queues import DBOS_SHARE, QUEUES
from bench.spread import Spread
from bench.subject import Effort
from bench.table import Line, Outcome

DRAINED_PER_S, MOST_CPU_US = 3_500, 400
SUBMIT_MS = 20.0
# The first is the promise; the second is shown beside it.
_RATES = (500, 1_000)
_RELOAD = "SELECT pg_reload_conf()"
_LEFT_OUT = {
    "without the audit trail": Without(audit=True),
    "without the history": Without(history=True),
    "without the effect ledger": Without(effects=True),
}


def run(effort: Effort) -> Outcome:
    """Our own, with everything and without each; then the queues of others with bare jobs, on the same PostgreSQL."""
    return uvloop.run(_run(effort))


async def _run(effort: Effort) -> Outcome:
    outcome = Outcome(f"Delegated tasks: {effort.delegated:,} trivial ones, in one process")
    async with postgres() as url:
        await _warm(url)
        filled, drained = await _backlog(url, effort)
        outcome.lines += [
            _line("handed over, 500 clients", filled),
            _line("performed, a backlog", drained, target=DRAINED_PER_S),
            _cpu_line(drained),
        ]
        outcome.figures = {"filled": asdict(filled), "drained": asdict(drained)}
        for name, without in _LEFT_OUT.items():
            _, left = await _backlog(url, effort, without)
            outcome.lines.append(_line(f"  {name}", left))
            outcome.figures[name] = asdict(left)
        for per_s in _RATES:
            outcome.lines.append(await _arrivals(url, effort, per_s, outcome.figures))
        await execute(url, "ALTER SYSTEM SET commit_delay = 1000", "ALTER SYSTEM SET commit_siblings = 0", _RELOAD)
        _, flushed = await _backlog(url, effort)
        outcome.lines.append(_line("performed, every commit 1 ms longer", flushed))
        outcome.figures["flush_1ms"] = asdict(flushed)
        await execute(url, "ALTER SYSTEM RESET ALL", _RELOAD)
        for name, jobs in QUEUES.items():
            await execute(url, f"CREATE DATABASE {name}")
            per_s = await jobs(url.replace("/dragoman?", f"/{name}?"), effort.delegated)
            outcome.lines.append(Line(f"{name}, bare jobs", f"{per_s:,.0f}/s", drained.per_s / per_s))
            outcome.figures[name] = per_s
    outcome.note = (
        "The ratio is ours by theirs. Each of our tasks has an envelope, five steps of history, three sealed audit "
        f"records\n  and an effect with its outcome; a bare job has none of these. dbos ran every {DBOS_SHARE}th."
    )
    return outcome


async def _warm(url: str) -> None:
    """PostgreSQL knows its tables, and this process its code."""
    async with node(url) as warm:
        await warm.fill(2_000)
        await warm.drain(2_000)
    await execute(url, "VACUUM ANALYZE")


async def _backlog(url: str, effort: Effort, without: Without | None = None) -> tuple[Took, Took]:
    """The best of the rounds: neighbours on the same cores only ever take away."""
    filled: list[Took] = []
    drained: list[Took] = []
    async with node(url, without=without) as running:
        for _ in range(effort.rounds):
            filled.append(await running.fill(effort.delegated))
            drained.append(await running.drain(effort.delegated))
    return max(filled, key=_per_s), max(drained, key=_per_s)


async def _arrivals(url: str, effort: Effort, per_s: int, figures: dict[str, Any]) -> Line:
    async with node(url) as running:
        await running.arrive(per_s, 0.5)
        waits, took = await running.arrive(per_s, effort.open_s)
    spread = Spread.of(waits)
    figures[f"arrivals, {per_s}/s"] = {"submit": asdict(spread), **asdict(took)}
    promised = per_s == _RATES[0]
    return Line(
        f"{per_s:,}/s for {effort.open_s:.0f} s, handed over and performed",
        f"p50 {spread.p50_ms:.1f} ms, p95 {spread.p95_ms:.1f} ms",
        cpu_us=took.cpu_us,
        beside_us=took.beside_us,
        target=f"p95 < {SUBMIT_MS:g} ms" if promised else "",
        met=spread.p95_ms < SUBMIT_MS and took.per_s > per_s * 0.9 if promised else None,
    )


def _cpu_line(drained: Took) -> Line:
    both_us = drained.cpu_us + drained.beside_us
    return Line("  CPU of both a task", f"{both_us:,.0f} us", target=f"<= {MOST_CPU_US} us", met=both_us <= MOST_CPU_US)


def _line(what: str, took: Took, *, target: int | None = None) -> Line:
    return Line(
        what,
        f"{took.per_s:,.0f}/s",
        cpu_us=took.cpu_us,
        beside_us=took.beside_us,
        target=f">= {target:,}/s" if target else "",
        met=took.per_s >= target if target else None,
    )


def _per_s(took: Took) -> float:
    return took.per_s
