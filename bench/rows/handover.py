"""Delegated tasks over REST at a fixed rate, and what becomes of tasks of both lanes when their process is killed."""

import json
import signal
import tempfile
from dataclasses import asdict
from pathlib import Path
from time import perf_counter

from tests.backstage import sql
from tests.chaos.outpost import Outpost
from tests.doors.a2a.calling import A2A, text
from tests.harness import Process, Server, wait_for
from tests.services.tasks.conftest import with_workers
from tests.services.tasks.envelopes import envelope
from tests.tenants import beside

from bench.load import NUMBER, request
from bench.subject import Effort, Subject
from bench.table import Line, Outcome

PER_S, P95_MS, TAKEN_OVER_S = 1_000, 250.0, 5.0
PROCESSES, CONNECTIONS = 2, 128
_TOLERANCE = 0.99
_LEFT = 20


def run(effort: Effort) -> Outcome:
    """Hand over, perform, kill."""
    outcome = Outcome(
        f"Handed over by POST /api/tasks at {PER_S:,}/s, over {PROCESSES} processes that perform them too"
    )
    with tempfile.TemporaryDirectory() as outside:
        _arrive(effort, Path(outside), outcome)
        _take_over(effort, Path(outside), outcome)
        _take_over_turns(effort, Path(outside), outcome)
    return outcome


def _arrive(effort: Effort, outside: Path, outcome: Outcome) -> None:
    body = json.dumps(envelope("count.nothing", idempotency_key=f"key-{NUMBER}"))
    with Server(with_workers(outside), "--workers", str(PROCESSES)) as server:
        bearer = {"authorization": f"Bearer {server.token()}"}
        subject = Subject("submit", server, request("POST", "/api/tasks", bearer, body))
        turn = subject.take_turn(effort.open_s, rate=PER_S, connections=CONNECTIONS)
        wait_for(lambda: not sql(server, "SELECT 1 FROM task_queue LIMIT 1"), "the end of every task")
    load, spread = turn.load, turn.load.latency
    held = load.per_s >= PER_S * _TOLERANCE
    outcome.lines += [
        Line("accepted", f"{load.per_s:,.0f}/s", None, turn.cpu_us, None, turn.beside_us, f"{PER_S:,}/s", held),
        Line("p50 and p95", f"{spread.p50_ms:.1f} and {spread.p95_ms:.1f} ms", target=f"p95 < {P95_MS:g} ms",
             met=spread.p95_ms < P95_MS),
    ]  # fmt: skip
    outcome.figures["arrivals"] = asdict(load)
    outcome.server_errors = load.server_errors
    outcome.note = f"The generator itself was up to {load.lag_ms:.2f} ms late (p99)."


def _take_over(effort: Effort, outside: Path, outcome: Outcome) -> None:
    """From the moment of the kill until the last of its tasks is in other hands."""
    took: list[float] = []
    with Server(with_workers(outside), "--no-worker") as server, server.client(server.token()) as client:
        for turn in range(effort.rounds):
            name = f"gate-{turn}"
            with Outpost(server) as first:
                for _ in range(_LEFT):
                    client.post("/api/tasks", json=envelope("count.wait", {"name": name})).raise_for_status()
                wait_for(lambda: _in_hand(server, attempt=1) == _LEFT, "the first worker")
                with Outpost(server) as second:
                    wait_for(second.works, "the second worker")
                    began = perf_counter()
                    first.kill()
                    wait_for(lambda: _in_hand(server, attempt=2) == _LEFT, "the other to take over")
                    took.append(perf_counter() - began)
                    (outside / name).write_text("open\n")
                    wait_for(lambda: not sql(server, "SELECT 1 FROM task_queue LIMIT 1"), "the end")
    _tell(outcome, "tasks", took)


def _take_over_turns(effort: Effort, outside: Path, outcome: Outcome) -> None:
    """The same for turns of conversations, which servers run."""
    agent = {"DRAGOMAN_AGENT": "tests.services.tasks.waiting_agent:agent", **with_workers(outside)}
    took: list[float] = []
    with Server(agent) as survivor:
        for turn in range(effort.rounds):
            gate = outside / f"turns-{turn}"
            with Process(agent | beside(survivor)) as victim:
                caller = A2A(victim, keys_of=survivor)
                for _ in range(_LEFT):
                    caller.send(text(str(gate), configuration={"returnImmediately": True}))
                wait_for(lambda: _in_hand(survivor, attempt=1) == _LEFT, "the first server")
                began = perf_counter()
                victim.stop(signal.SIGKILL)
                wait_for(lambda: _in_hand(survivor, attempt=2) == _LEFT, "the other to take over")
                took.append(perf_counter() - began)
            gate.write_text("open\n")
            wait_for(lambda: not sql(survivor, "SELECT 1 FROM task_queue LIMIT 1"), "the end")
    _tell(outcome, "turns", took)


def _tell(outcome: Outcome, what: str, took: list[float]) -> None:
    measured = f"{min(took):.1f} to {max(took):.1f} s"
    outcome.lines.append(
        Line(f"taken over after kill -9, {_LEFT} {what}, {len(took)} kills", measured, target=f"< {TAKEN_OVER_S:g} s",
             met=max(took) < TAKEN_OVER_S)
    )  # fmt: skip
    outcome.figures[f"{what}_taken_over_s"] = took


def _in_hand(server: Server, *, attempt: int) -> int:
    """Count the attempts of this number that are leased and have been written to the log."""
    running = "SELECT count(*) AS n FROM tasks WHERE state = 'in_progress' AND attempt = $1"
    return sql(server, running, attempt)[0]["n"]
