"""Pull the plug at any moment: every task is where it should be, and every side effect was done once."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from dragoman.services.tasks.lifecycle import TRANSITIONS, State
from tests.backstage import sql
from tests.chaos.besieged import Client, Outpost, Siege, times_done
from tests.harness import Server, data_dir, wait_for
from tests.services.delegation.conftest import with_workers
from tests.services.delegation.envelopes import envelope

# In the suite a few; by hand hundreds: DELEGATION_KILLS=400 pytest tests/chaos/test_delegation.py
KILLS = int(os.environ.get("DELEGATION_KILLS", "8"))
SEED = int(os.environ.get("DELEGATION_SEED", "5"))
UNSETTLED = """
SELECT count(*) AS n FROM tasks
WHERE skill = 'task' AND state IN ('requested', 'validated', 'queued', 'in_progress')"""
# A worker that was killed again and again is no reason to give a task up.
PATIENT = {"DRAGOMAN_TASKS__MAX_ATTEMPTS": "1000", "DRAGOMAN_TASKS__RETRY_MAX_S": "0.5"}


@pytest.fixture
def place() -> Iterator[Path]:
    """A data directory that outlives its servers."""
    path = data_dir()
    yield path
    subprocess.run(["rm", "-rf", str(path.parent)], check=True)


@pytest.mark.timeout(120 + 30 * KILLS)
def test_whoever_is_killed_no_task_is_lost_or_stuck_and_no_effect_happens_twice(
    place: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    server = Server(with_workers(tmp_path) | PATIENT, "--workers", "2", at=place)
    with server, Outpost(server) as outpost:
        client = Client(server, Random(SEED))
        siege = Siege(server, outpost, client, Random(SEED))

        with client.submitting(every_s=0.02):
            siege.kill(KILLS)

        wait_for(lambda: settled(server), "the end of every task", 60)
        assert client.wrong == [], [line for line in server.log_lines() if "stack_trace" in line]
        given = client.acknowledged
        record_property("killed", siege.killed)
        record_property("tasks", len(given))
        record_property("refused", client.refused)
        assert sum(siege.killed.values()) == KILLS
        states = {
            str(row["id"]): row["state"] for row in sql(server, "SELECT id, state FROM tasks WHERE skill = 'task'")
        }
        assert set(states) == {one["task_id"] for one in given.values()}  # none lost, and none that nobody asked for
        for name, one in given.items():
            state, times = states[one["task_id"]], times_done(tmp_path, name)
            if one["action"] == "count.unsafe":
                assert (state, times) == ("succeeded", 1) or (state, times <= 1) == ("input_required", True), name
            else:
                assert (state, times) == ("succeeded", 0 if one["action"] == "count.nothing" else 1), name
        parked = [one for one in given.values() if states[one["task_id"]] == "input_required"]
        record_property("parked", len(parked))
        answer_for(server, parked, tmp_path)
        for one in parked:
            assert times_done(tmp_path, one["idempotency_key"]) == 1
        check_logs(server)
        verified = server.cli("audit", "verify", environment={"DRAGOMAN_TOKEN": server.token()})
        assert verified.returncode == 0, verified.stdout + verified.stderr


def settled(server: Server) -> bool:
    return sql(server, UNSETTLED)[0]["n"] == 0


def answer_for(server: Server, parked: list[dict[str, Any]], outside: Path) -> None:
    """A person looks whether it was done, and says so; then each task goes on to its end."""
    with server.client(server.token()) as client:
        for one in parked:
            done = times_done(outside, one["idempotency_key"]) == 1
            told = {"effect": {"step": "count", "done": done, "outcome": {"counted": "by hand"}}}
            answer = client.post(f"/api/tasks/{one['task_id']}/input", json=told)
            assert answer.status_code == 200, answer.text
    wait_for(lambda: settled(server), "the end of what was answered", 20)
    assert {row["state"] for row in sql(server, "SELECT state FROM tasks WHERE skill = 'task'")} == {"succeeded"}


def check_logs(server: Server) -> None:
    """Every log is whole: no number is missing, every step is one of the lifecycle, every attempt is there."""
    logs: dict[Any, list[Any]] = {}
    for row in sql(server, "SELECT task_id, seq, body FROM task_events ORDER BY task_id, seq"):
        logs.setdefault(row["task_id"], []).append(row)
    for task in sql(server, "SELECT id, seq, attempt FROM tasks WHERE skill = 'task'"):
        log = logs[task["id"]]
        assert [row["seq"] for row in log] == list(range(1, task["seq"] + 1))
        steps = [body for row in log if (body := json.loads(row["body"]))["kind"] == "status"]
        for before, after in pairwise(steps):
            assert after["from"] == before["to"]
            taken_over = after["from"] == after["to"] == "in_progress"
            assert taken_over or State(after["to"]) in TRANSITIONS[State(after["from"])]
        attempts = [step["attempt"] for step in steps if step["to"] == "in_progress"]
        assert attempts == list(range(1, task["attempt"] + 1))
    assert sql(server, "SELECT count(*) AS n FROM task_queue")[0]["n"] == 0


def test_what_a_killed_worker_had_is_taken_over_by_another(place: Path, tmp_path: Path) -> None:
    """Within the lease and a beat; how soon, the benchmark says."""
    server = Server(with_workers(tmp_path), "--no-worker", at=place)
    with server, Outpost(server) as first, server.client(server.token()) as client:
        given = envelope("count.wait", {"name": "gate"})
        task_id = client.post("/api/tasks", json=given).json()["data"]["task_id"]
        wait_for(lambda: view(client, task_id)["state"] == "in_progress", "the first worker")

        first.kill()
        with Outpost(server):
            wait_for(lambda: view(client, task_id)["attempt"] == 2, "the second worker")
            (tmp_path / "gate").write_text("open\n")
            ended = wait_for(lambda: (now := view(client, task_id))["state"] == "succeeded" and now, "its end")

    assert [(one["attempt"], one["outcome"]) for one in ended["attempts"]] == [(1, "lost"), (2, "succeeded")]


def view(client: httpx.Client, task_id: str) -> dict[str, Any]:
    return client.get(f"/api/tasks/{task_id}").json()["data"]
