"""What a delegated task costs when there are very many already, and how they are found."""

import re
from time import perf_counter
from typing import Any, Final

import asyncpg
import uvloop
from tests.services.tasks.stored import store

from bench.delegated import Took, node, postgres
from bench.spread import Spread
from bench.subject import Effort
from bench.table import Line, Outcome
from dragoman.context import Caller
from dragoman.infra.db import Database
from dragoman.services.tasks import store_views as store_read
from dragoman.services.tasks.access import Visible
from dragoman.services.tasks.engine import store as core
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Order, TaskQuery
from dragoman.services.tasks.store_lists import list_statement
from dragoman.services.tasks.store_views import SUMMARY_COLUMNS, TaskViewStore

_TASKS, _LOOKS = 4_000, 50
_SCAN = re.compile("Seq Scan on (tasks|delegations|task_events)")
LISTS: Final = {
    "newest": TaskQuery(order=Order.CREATED),
    "last changed": TaskQuery(order=Order.CHANGED),
    "by state": TaskQuery(order=Order.CREATED, states=(State.FAILED,)),
    "by error": TaskQuery(order=Order.CREATED, error="RARE"),
    "by action": TaskQuery(order=Order.CREATED, action="rare.action"),
    "by matter": TaskQuery(order=Order.CREATED, matter="matter of rare"),
    "by actor": TaskQuery(order=Order.CREATED, actor="rare"),
    "by correlation": TaskQuery(order=Order.CREATED, correlation_id="c-4000"),
}
STATEMENTS: Final = {
    "claim": core.CLAIM_DUE,
    "take over": core.CLAIM_LEFT,
    "add": core.ADD_ACTIONS,
    "step": core.STEP_ALL,
    "find keys": store_read.FIND_KEYS,
    "status": store_read.RUNS,
    "history": store_read.STEPS,
    **{f"list {name}": list_statement(query, Visible(), columns=SUMMARY_COLUMNS)[0] for name, query in LISTS.items()},
}


def run(effort: Effort) -> Outcome:
    """The same work at each size."""
    return uvloop.run(_run(effort))


async def _run(effort: Effort) -> Outcome:
    outcome = Outcome(f"Delegated tasks beside many stored ones: {_TASKS:,} handed over and performed at each size")
    stored, first = 0, 0.0
    async with postgres() as url:
        async with node(url) as running:
            await running.fill(1_000)
            await running.drain(1_000)
            for size in effort.stored:
                await store(url, running.caller.tenant, stored + 1, size)
                stored = size
                filled, drained = await running.fill(_TASKS), await running.drain(_TASKS)
                cost_us = _cost_us(filled) + _cost_us(drained)
                first = first or cost_us
                looks = await _look(url, running.caller)
                outcome.figures[f"{size}"] = {"task_us": cost_us, "lists_ms": looks}
                slowest = max(looks, key=lambda name: looks[name])
                outcome.lines += [
                    Line(f"{size:,} stored: CPU of a task", f"{cost_us:,.0f} us", cost_us / first,
                         _own_us(filled, drained), None, cost_us - _own_us(filled, drained)),
                    Line(f"  a list, the slowest of {len(looks)}", f"{slowest}: p95 {looks[slowest]:.1f} ms"),
                ]  # fmt: skip
        outcome.figures["plans"] = await _plans(url)
    scans = [name for name, plan in outcome.figures["plans"].items() if _SCAN.search(plan)]
    outcome.lines.append(
        Line("statements that scan what is stored", ", ".join(scans) or "none", target="none", met=not scans)
    )
    outcome.note = "Measured is the CPU of both processes; the ratio is to the first size. The plans are in the record."
    return outcome


async def _look(url: str, caller: Caller) -> dict[str, float]:
    """The p95 of each list, in milliseconds."""
    db = Database(url, size=1)
    views, found = TaskViewStore(db), dict[str, float]()
    try:
        for name, query in LISTS.items():
            took: list[float] = []
            for _ in range(_LOOKS):
                began = perf_counter()
                await views.page(caller.tenant, query, Visible())
                took.append(perf_counter() - began)
            found[name] = Spread.of(took).p95_ms
    finally:
        await db.stop()
    return found


async def _plans(url: str) -> dict[str, str]:
    """As they are made for statements that are run often."""
    connection: Any = await asyncpg.connect(url)
    plans: dict[str, str] = {}
    try:
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        for name, statement in STATEMENTS.items():
            places = ", ".join(["NULL"] * len(set(re.findall(r"\$\d+", statement))))
            await connection.execute(f"PREPARE asked AS {statement}")
            rows = await connection.fetch(f"EXPLAIN EXECUTE asked ({places})")
            plans[name] = "\n".join(row[0] for row in rows)
            await connection.execute("DEALLOCATE asked")
    finally:
        await connection.close()
    return plans


def _cost_us(took: Took) -> float:
    return took.cpu_us + took.beside_us


def _own_us(*parts: Took) -> float:
    return sum(part.cpu_us for part in parts)
