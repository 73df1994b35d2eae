"""Memories found and added over REST, in a tenant that has very many of them."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from time import monotonic, perf_counter, sleep

import httpx
from tests.backstage import sql
from tests.harness import Server

from bench.crowd import PROJECT, SMALL_PROJECT, fill
from bench.spread import Spread
from bench.subject import Effort
from bench.table import Line, Outcome
from dragoman.services.memory.benchmark import make_facts

SEARCH_MS, ADDS_PER_S = 20.0, 1_000
_WRITERS, _PIECE = 4, 50
_SETTLED_S = 300.0


def run(effort: Effort) -> Outcome:
    """Search among many memories of one tenant beside those of others, then add."""
    outcome = Outcome(f"Memory: {effort.memories:,} of one tenant, {effort.everybodys:,} in all")
    with Server() as server, server.admin() as client:
        client.timeout = httpx.Timeout(120)
        load_s = fill(server, own=effort.memories, everybody=effort.everybodys)
        questions = _questions(effort.searches)
        for question in questions[::3]:  # the model is loaded, and the database has pages in its buffers
            _ask(client, f"Once more: {question}")
        fresh = Spread.of([_ask(client, question) for question in questions])
        again = Spread.of([_ask(client, question) for question in questions])
        beside = Spread.of([_ask(client, question, SMALL_PROJECT) for question in questions])
        adds_per_s, vectors_per_s = _add(server, effort.searches * 10)
    outcome.lines = [
        _line("search, a new question", fresh),
        _line("search, one asked before", again),
        _line("the same in a small project of that tenant", beside),
        Line("memories added, acknowledged", f"{adds_per_s:,.0f}/s", target=f">= {ADDS_PER_S:,}/s",
             met=adds_per_s >= ADDS_PER_S),
        Line("  vectors made behind them", f"{vectors_per_s:,.0f}/s"),
    ]  # fmt: skip
    outcome.figures = {
        "new_ms": _figures(fresh),
        "again_ms": _figures(again),
        "small_ms": _figures(beside),
        "load_s": load_s,
    }
    return outcome


def _questions(number: int) -> list[str]:
    """Each of them new: what is asked often has its vector already."""
    chance = Random(11)
    _, questions = make_facts()
    return [f"{chance.choice(questions).text} {chance.randrange(10_000)}" for _ in range(number)]


def _ask(client: httpx.Client, question: str, project: str = PROJECT) -> float:
    began = perf_counter()
    response = client.post("/api/memories/search", json={"query": question, "ids": {"project_id": project}})
    took_s = perf_counter() - began
    found = response.raise_for_status().json()["data"]
    if not found["by_meaning"] or not found["results"]:
        raise RuntimeError(f"nothing was found, or by words alone: {question}")
    return took_s


def _add(server: Server, number: int) -> tuple[float, float]:
    """Memories acknowledged in a second over a few connections, and vectors in a second until none waits."""
    facts, _ = make_facts()
    pieces = [range(begin, begin + _PIECE) for begin in range(0, number, _PIECE)]
    token = server.token(role="super_admin")

    def write(piece: Sequence[int]) -> None:
        new = [{"content": f"{facts[n % len(facts)].content} Noted as {n}.", "layer": "company"} for n in piece]
        with server.client(token) as client:
            client.post("/api/memories/bulk", json={"memories": new}).raise_for_status()

    began = perf_counter()
    with ThreadPoolExecutor(_WRITERS) as writers:
        list(writers.map(write, pieces))
    added_s = perf_counter() - began
    deadline = monotonic() + _SETTLED_S
    while sql(server, "SELECT 1 FROM memory_pending LIMIT 1"):
        if monotonic() > deadline:
            raise RuntimeError("the vectors did not come")
        sleep(0.1)
    return number / added_s, number / (perf_counter() - began)


def _line(what: str, spread: Spread) -> Line:
    measured = f"p50 {spread.p50_ms:.1f} ms, p95 {spread.p95_ms:.1f} ms"
    return Line(what, measured, target=f"p95 < {SEARCH_MS:g} ms", met=spread.p95_ms < SEARCH_MS)


def _figures(spread: Spread) -> dict[str, float]:
    return {name: getattr(spread, name) for name in ("p50_ms", "p95_ms", "p99_ms", "max_ms")}
