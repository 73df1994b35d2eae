"""The same task behind A2A (both paths), MCP, REST and the shell."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backstage import sql
from tests.harness import Server, wait_for
from tests.services.tasks.doors import Door, Json, a2a, mcp, rest, seed
from tests.services.tasks.envelopes import envelope


@pytest.fixture(scope="module", params=["a2a", "seed", "mcp", "rest", "cli"])
def door(request: pytest.FixtureRequest, counting: Server) -> Iterator[Door]:
    """Every door in turn, with the same credentials."""
    token = counting.token()
    if request.param == "cli":

        def cli(tool: str, arguments: Json) -> Json:
            given = dict(arguments)
            words = ["task", tool.removeprefix("task_").replace("_", "-")]
            if tool == "task_submit":
                words += ["--envelope", json.dumps(given.pop("envelope"))]
            else:
                words.append(given.pop("task_id"))
            words += [word for name, value in given.items() for word in (f"--{name}", str(value))]
            return json.loads(counting.cli(*words, "--json", environment={"DRAGOMAN_TOKEN": token}).stdout)

        yield Door("cli", cli)
        return
    call = {"a2a": a2a, "seed": seed, "mcp": mcp, "rest": rest}[request.param]
    with counting.client(token) as client:
        yield Door(request.param, lambda tool, arguments: call(client, tool, arguments))


@pytest.mark.req("ORC-ENV-1", "ORC-OPS-1", "ORC-OPS-2", "ORC-LIF-1")
def test_a_whole_envelope_becomes_a_task_whose_steps_can_be_read(door: Door) -> None:
    made = door.submit(envelope())
    view = door.ended(made["task_id"])

    assert made["correlation_id"] == "corr-1"
    assert made["state"] in ("queued", "in_progress", "succeeded")
    assert (made["attempt"], made["replayed"]) == (1, False)
    assert (view["task_id"], view["state"]) == (made["task_id"], "succeeded")
    assert [step["to"] for step in view["history"]] == ["requested", "validated", "queued", "in_progress", "succeeded"]


@pytest.mark.req("ORC-ENV-2")
@pytest.mark.parametrize("missing", ["actor", "action"])
def test_an_envelope_without_actor_or_action_is_refused_and_nothing_is_queued(
    door: Door, missing: str, counting: Server
) -> None:
    given = envelope()
    del given[missing]

    refused = door.submit(given)["error"]

    assert refused["code"] == "INVALID_PARAMS"
    assert [error["field"] for error in refused["details"]["errors"]] == [missing]
    with counting.client(counting.token()) as client:
        listed = client.get("/api/tasks", params={"action": "count.nothing"}).json()["data"]
        kept = [client.get(f"/api/tasks/{task['task_id']}").json()["data"] for task in listed[:3]]
    assert given["idempotency_key"] not in json.dumps(kept)


@pytest.mark.req("ORC-LIF-2")
def test_a_step_that_the_lifecycle_has_not_is_refused_and_kept(door: Door) -> None:
    task_id = door.ended(door.submit(envelope())["task_id"])["task_id"]

    refused = door.call("task_transition", {"task_id": task_id, "to": "in_progress"})["error"]

    assert refused["code"] == "INVALID_TRANSITION"
    last = door.status(task_id)["history"][-1]
    assert (last["from"], last["to"], last["refused"]) == ("succeeded", "in_progress", True)
    assert door.status(task_id)["state"] == "succeeded"


@pytest.mark.req("ORC-LIF-2")
def test_a_task_that_was_only_requested_cannot_be_said_to_have_succeeded(door: Door, counting: Server) -> None:
    task_id = door.ended(door.submit(envelope())["task_id"])["task_id"]
    sql(counting, "UPDATE tasks SET state = 'requested' WHERE id = $1::uuid", task_id)

    refused = door.call("task_transition", {"task_id": task_id, "to": "succeeded"})["error"]

    assert refused["code"] == "INVALID_TRANSITION"
    last = door.status(task_id)["history"][-1]
    assert (last["from"], last["to"], last["refused"]) == ("requested", "succeeded", True)
    assert door.status(task_id)["state"] == "requested"


@pytest.mark.req("ORC-IDM-1")
def test_the_same_key_gives_the_same_task_and_no_second_effect(door: Door, outside: Path) -> None:
    name = f"once-{door.name}"
    given = envelope("count.once", {"name": name})

    first, second = door.submit(given), door.submit(given)
    door.ended(first["task_id"])
    other = door.submit(given | {"matter": {"id": "another"}})

    assert (first["task_id"], second["replayed"]) == (second["task_id"], True)
    assert len((outside / name).read_text().splitlines()) == 1
    assert other["error"]["code"] == "IDEMPOTENCY_CONFLICT"
    assert other["error"]["details"]["task_id"] == first["task_id"]


@pytest.mark.req("ORC-IDM-2")
def test_a_task_that_never_works_ends_in_the_dead_letter_with_its_attempts(door: Door) -> None:
    view = door.ended(door.submit(envelope("count.never"))["task_id"])

    assert view["state"] == "dead_letter"
    assert [(one["attempt"], one["outcome"], one["error"]["code"]) for one in view["attempts"]] == [
        (number, "failed", "UPSTREAM_UNAVAILABLE") for number in (1, 2, 3)
    ]


@pytest.mark.req("ORC-CAP-1")
def test_an_action_goes_to_the_worker_that_declares_it_and_the_assignment_is_kept(door: Door) -> None:
    view = door.ended(door.submit(envelope("count.nothing"))["task_id"])

    [assigned] = [step for step in view["history"] if step["to"] == "in_progress"]
    assert assigned["worker"] == "counting"


@pytest.mark.req("ORC-CAP-2")
def test_an_action_that_nobody_performs_is_refused(door: Door) -> None:
    assert door.submit(envelope("nobody.does_this"))["error"]["code"] == "CAPABILITY_NOT_FOUND"


@pytest.mark.req("ORC-CAP-1", "ORC-CAP-2")
def test_an_action_that_was_taken_off_the_allow_list_is_refused_until_it_is_back(door: Door, counting: Server) -> None:
    with counting.client(counting.token()) as admin:
        denied = admin.post("/api/capabilities/count.ask/deny", json={"worker": "counting"}).json()["data"]
        refused = door.submit(envelope("count.ask"))
        allowed = admin.post("/api/capabilities/count.ask/allow", json={"worker": "counting"}).json()["data"]
        taken = door.submit(envelope("count.ask"))

    assert (denied["performed_by"], allowed["performed_by"]) == (None, "counting")
    assert refused["error"]["code"] == "CAPABILITY_NOT_FOUND"
    assert "task_id" in taken


@pytest.mark.req("ORC-OPS-3")
def test_a_task_that_failed_is_tried_again_with_new_attempts(door: Door) -> None:
    task_id = door.ended(door.submit(envelope("count.refuse"))["task_id"])["task_id"]

    again = door.call("task_retry", {"task_id": task_id})
    view = wait_for(lambda: (found := door.status(task_id))["state"] == "failed" and found, "the second failure")

    assert (again["task_id"], again["attempt"], again["run"]) == (task_id, 2, 2)
    assert [one["attempt"] for one in view["attempts"]] == [1, 2]
    assert door.call("task_cancel", {"task_id": task_id})["error"]["code"] == "CONFLICT"


@pytest.mark.req("ORC-AUD-1", "ORC-AUD-2")
def test_the_audit_trail_tells_who_asked_who_did_it_and_why_it_failed(door: Door, counting: Server) -> None:
    task_id = door.ended(door.submit(envelope("count.never"))["task_id"])["task_id"]
    waiting = (
        door.submit(envelope("count.wait", {"name": f"never-{door.name}"}))["task_id"] if door.name != "seed" else None
    )
    if waiting is not None:
        door.call("task_cancel", {"task_id": waiting})
    done = door.ended(door.submit(envelope())["task_id"])["task_id"]

    with counting.client(counting.token()) as client:
        records = client.get("/api/audit", params={"limit": 200}).json()["data"]

    def of(task: str | None) -> list[tuple[str, str, str | None]]:
        return [
            (one["operation"], one["outcome"], one.get("code"))
            for one in reversed(records)
            if one.get("resource") == task
        ]

    assert of(task_id) == [
        ("task.submit", "done", None),
        ("task.delegate", "done", None),
        ("task.retry", "failed", "UPSTREAM_UNAVAILABLE"),
        ("task.delegate", "done", None),
        ("task.retry", "failed", "UPSTREAM_UNAVAILABLE"),
        ("task.delegate", "done", None),
        ("task.dead_letter", "failed", "UPSTREAM_UNAVAILABLE"),
    ]
    assert [name for name, _, _ in of(done)] == ["task.submit", "task.delegate", "task.complete"]
    if waiting is not None:
        assert of(waiting)[-1] == ("task.cancel", "done", None)
    delegated = next(one for one in records if one["operation"] == "task.delegate" and one["resource"] == done)
    assert delegated["details"] == {
        "actor": "admin",
        "action": "count.nothing",
        "worker": "counting",
        "capability": "count.nothing@1",
        "attempt": 1,
    }
    failed = next(one for one in records if one["operation"] == "task.dead_letter" and one["resource"] == task_id)
    assert "unavailable" in failed["reason"]


@pytest.mark.req("ORC-COR-1")
def test_one_key_through_two_doors_is_one_task_and_one_effect(door: Door, counting: Server, outside: Path) -> None:
    name = f"two-doors-{door.name}"
    given = envelope("count.once", {"name": name})

    with counting.client(counting.token()) as client:
        first = a2a(client, "task_submit", {"envelope": given})
        second = door.submit(given)
        third = mcp(client, "task_submit", {"envelope": given})

    assert first["task_id"] == second["task_id"] == third["task_id"]
    door.ended(first["task_id"])
    assert len((outside / name).read_text().splitlines()) == 1
