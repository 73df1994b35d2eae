"""Steering tasks: deadlines, dry runs, answers, many at once, and what must never leak."""

import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.backstage import sql
from tests.doors.mcp.calling import Mcp
from tests.doors.rest.calling import new_tenant
from tests.harness import Process, Server, wait_for
from tests.services.tasks.conftest import with_workers
from tests.services.tasks.envelopes import ended, envelope, status, submit


@pytest.fixture(scope="module")
def admin(counting: Server) -> Iterator[httpx.Client]:
    with counting.client(counting.token()) as client:
        yield client


def soon(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_what_comes_after_its_deadline_is_refused(admin: httpx.Client) -> None:
    answer = admin.post("/api/tasks", json=envelope(request={"deadline": soon(-1)}))

    assert (answer.status_code, answer.json()["code"]) == (504, "TIMEOUT")
    assert answer.json()["details"]["reason"] == "DEADLINE_PASSED"


def test_a_task_that_waits_for_somebody_ends_at_its_deadline(counting: Server, admin: httpx.Client) -> None:
    deadline = soon(3600)
    task_id = submit(admin, envelope("count.ask", request={"deadline": deadline}))["task_id"]
    ended(admin, task_id, within=("input_required",))
    [waits] = sql(counting, "SELECT run_at FROM task_queue WHERE task_id = $1::uuid", task_id)

    # An hour passes.
    sql(counting, "UPDATE delegations SET deadline = now() WHERE task_id = $1::uuid", task_id)
    sql(counting, "UPDATE task_queue SET run_at = now() WHERE task_id = $1::uuid", task_id)
    view = ended(admin, task_id)

    assert waits["run_at"].isoformat() == deadline
    assert [step["to"] for step in view["history"]][-3:] == ["input_required", "in_progress", "failed"]
    assert view["error"]["details"]["reason"] == "DEADLINE_PASSED"


def test_a_dry_run_passes_every_guard_changes_nothing_and_leaves_its_key_free(
    admin: httpx.Client, outside: Path
) -> None:
    name = f"dry-{uuid4().hex[:8]}"
    given = envelope("count.once", {"name": name})

    dry = submit(admin, given | {"request": {"dry_run": True}})
    wrong = admin.post("/api/tasks", json=given | {"request": {"dry_run": True}, "input": {"name": "NOT FIT"}})
    view = status(admin, dry["task_id"])
    untouched = not (outside / name).exists()
    real = submit(admin, given)

    assert (view["state"], view["result"]["would"]["worker"]) == ("succeeded", "counting")
    assert (untouched, wrong.json()["errors"][0]["field"]) == (True, "input.name")
    assert (real["replayed"], real["task_id"] != dry["task_id"]) == (False, True)


def test_an_answer_lets_a_task_go_on_and_asking_costs_no_attempt(admin: httpx.Client) -> None:
    made = submit(admin, envelope("count.ask"))
    asked = ended(admin, made["task_id"], within=("input_required",))

    answer = admin.post(f"/api/tasks/{made['task_id']}/input", json={"input": {"answer": "green"}})
    view = ended(admin, made["task_id"])

    assert asked["question"]["question"] == "which colour?"
    assert answer.status_code == 200, answer.text
    assert (view["result"], view["max_attempts"]) == ({"colour": "green"}, 4)


def test_a_script_that_repeats_its_answer_with_the_same_key_gets_the_first_result(
    admin: httpx.Client, counting: Server
) -> None:
    """The task has gone on meanwhile: without the key, the second answer would be refused."""
    task_id = submit(admin, envelope("count.ask"))["task_id"]
    ended(admin, task_id, within=("input_required",))
    words = ("task", "provide-input", task_id, "--input", '{"answer": "green"}', "--json")

    first = counting.cli(*words, "--idempotency-key", task_id)
    ended(admin, task_id)
    again, without = counting.cli(*words, "--idempotency-key", task_id), counting.cli(*words)

    assert (first.returncode, again.returncode, without.returncode) == (0, 0, 1)
    assert again.stdout == first.stdout


def test_a_script_that_repeats_a_long_command_with_the_same_key_gets_the_first_result(
    admin: httpx.Client, counting: Server
) -> None:
    matter = f"m-{uuid4().hex[:8]}"
    ended(admin, submit(admin, envelope("count.ask", matter={"id": matter}))["task_id"], within=("input_required",))
    words = ("task", "cancel-many", "--matter", matter, "--json")

    first = counting.cli(*words, "--idempotency-key", matter)
    again, without = counting.cli(*words, "--idempotency-key", matter), counting.cli(*words)

    assert (first.returncode, again.stdout) == (0, first.stdout)
    assert without.stdout != first.stdout


def test_many_tasks_are_ended_and_tried_again_by_what_they_have_in_common(admin: httpx.Client) -> None:
    matter = f"m-{uuid4().hex[:8]}"
    waiting = [submit(admin, envelope("count.ask", matter={"id": matter}))["task_id"] for _ in range(3)]
    failed = [submit(admin, envelope("count.refuse", matter={"id": matter}))["task_id"] for _ in range(2)]
    for task_id in waiting:
        ended(admin, task_id, within=("input_required",))
    for task_id in failed:
        ended(admin, task_id)

    everything = admin.post("/api/tasks/cancel", json={})
    cancelled = admin.post("/api/tasks/cancel", json={"matter": matter, "reason": "called off"}).json()["data"]
    again = admin.post("/api/tasks/retry", json={"matter": matter, "error": "CONFLICT"}).json()["data"]

    assert (everything.status_code, everything.json()["code"]) == (400, "INVALID_PARAMS")
    assert (sorted(cancelled["done"]), cancelled["refused"]) == (sorted(waiting), [])
    assert sorted(again["done"]) == sorted(failed)
    assert {status(admin, task_id)["state"] for task_id in waiting} == {"cancelled"}
    assert {status(admin, task_id)["run"] for task_id in failed} == {2}


@pytest.mark.parametrize("key", ["k" * 201, "ключ"])
@pytest.mark.parametrize("door", ["rest", "mcp"])
def test_a_long_operation_with_an_unfit_key_is_refused_before_it_does_anything(
    admin: httpx.Client, counting: Server, door: str, key: str
) -> None:
    matter = f"m-{uuid4().hex[:8]}"
    task_id = submit(admin, envelope("count.ask", matter={"id": matter}))["task_id"]
    ended(admin, task_id, within=("input_required",))

    if door == "rest":
        headers: Any = [(b"idempotency-key", key.encode())]
        refusal = admin.post("/api/tasks/cancel", json={"matter": matter}, headers=headers).json()
    else:
        called = Mcp(counting).call("task_cancel_many", {"matter": matter, "idempotency_key": key})
        refusal = called["structuredContent"]["error"]

    assert refusal["code"] == "INVALID_PARAMS"
    assert status(admin, task_id)["state"] == "input_required"


def test_a_worker_that_hangs_is_stopped_and_tried_again(admin: httpx.Client) -> None:
    view = ended(admin, submit(admin, envelope("count.hang"))["task_id"])

    assert view["state"] == "dead_letter"
    assert {one["error"]["code"] for one in view["attempts"]} == {"TIMEOUT"}


def test_a_worker_that_breaks_shows_nothing_of_itself(admin: httpx.Client) -> None:
    made = submit(admin, envelope("count.break"))

    ended(admin, made["task_id"])

    assert "a secret of the worker" not in admin.get(f"/api/tasks/{made['task_id']}").text
    assert "a secret of the worker" not in admin.get(f"/api/tasks/{made['task_id']}/events").text


@pytest.mark.parametrize(
    "actor",
    [
        {"id": "somebody-else", "type": "human"},
        {"id": "admin", "type": "human", "tenant_id": "another"},
    ],
)
def test_an_actor_that_the_credentials_do_not_name_is_refused(admin: httpx.Client, actor: dict[str, Any]) -> None:
    answer = admin.post("/api/tasks", json=envelope(actor=actor))

    assert (answer.status_code, answer.json()["details"]["reason"]) == (403, "ACTOR_MISMATCH")


def test_another_tenant_sees_no_task_and_may_use_the_same_key(counting: Server, admin: httpx.Client) -> None:
    given = envelope()
    made = submit(admin, given)
    with counting.client(counting.token(tenant=new_tenant(counting)["slug"])) as stranger:
        theirs = submit(stranger, given)
        seen = [
            stranger.get(f"/api/tasks/{made['task_id']}").status_code,
            stranger.get(f"/api/tasks/{made['task_id']}/events").status_code,
            stranger.post(f"/api/tasks/{made['task_id']}/cancel", json={}).status_code,
            stranger.post(f"/api/tasks/{made['task_id']}/retry", json={}).status_code,
        ]
        listed = [task["task_id"] for task in stranger.get("/api/tasks").json()["data"]]

    assert seen == [404] * 4
    assert listed == [theirs["task_id"]]
    assert theirs["replayed"] is False


def test_after_a_crash_nobody_guesses_and_a_person_says_what_was_done(outside: Path) -> None:
    name = f"crash-{uuid4().hex[:8]}"
    environment = with_workers(outside)
    server = Process(environment, keep=True)
    try:
        server.start()
        with server.client(server.token()) as client:
            task_id = submit(client, envelope("count.unsafe", {"name": name, "stay_s": 60}))["task_id"]
        wait_for((outside / name).exists, "the effect")
        server.stop(signal.SIGKILL)
        server.start()
        with server.client(server.token()) as client:
            parked = ended(client, task_id, within=("input_required",))
            said = {"effect": {"step": "count", "done": True, "outcome": {"counted": "by hand"}}}
            client.post(f"/api/tasks/{task_id}/input", json=said)
            view = ended(client, task_id)
    finally:
        server.stop()

    assert parked["question"]["details"]["reason"] == "EFFECT_UNKNOWN"
    assert (view["state"], view["result"]) == ("succeeded", {"counted": "by hand"})
    assert len((outside / name).read_text().splitlines()) == 1
