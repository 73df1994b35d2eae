"""A step that cannot be taken is refused on every door alike, is on record, and moves nothing."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.backstage import records_of
from tests.doors.a2a.calling import A2A, state, text
from tests.harness import InProcess, Server, wait_for
from tests.services.tasks.conftest import TREE
from tests.services.tasks.doors import a2a, mcp, seed
from tests.services.tasks.envelopes import ended, envelope, status, submit

Json = dict[str, Any]
# Calls a tool as a user of the tenant; gives its output, or its error.
Call = Callable[[str, str, Json], Json]
_PATHS = {
    "task_provide_input": "input",
    "task_cancel": "cancel",
    "task_retry": "retry",
    "task_transition": "transition",
}
ANSWER: Json = {"input": {"answer": "green"}}


def _rest(client: httpx.Client, tool: str, arguments: Json) -> Json:
    given = dict(arguments)
    answer = client.post(f"/api/tasks/{given.pop('task_id')}/{_PATHS[tool]}", json=given)
    return answer.json()["data"] if answer.is_success else {"error": answer.json()}


@pytest.fixture(scope="module", params=["a2a", "seed", "mcp", "rest", "cli"])
def call(request: pytest.FixtureRequest, counting: Server) -> Call:
    """Every door in turn."""
    by_http = {"a2a": a2a, "seed": seed, "mcp": mcp, "rest": _rest}

    def by_any(user: str, tool: str, arguments: Json) -> Json:
        token = counting.token(user=user, role="org_admin" if user == "admin" else "agent")
        if request.param in by_http:
            with counting.client(token) as client:
                return by_http[request.param](client, tool, arguments)
        given = dict(arguments)
        words = ["task", tool.removeprefix("task_").replace("_", "-"), given.pop("task_id")]
        for name, value in given.items():
            words += [f"--{name}", json.dumps(value) if isinstance(value, dict) else str(value)]
        return json.loads(counting.cli(*words, "--json", environment={"DRAGOMAN_TOKEN": token}).stdout)

    return by_any


@pytest.fixture(scope="module")
def admin(counting: Server) -> Iterator[httpx.Client]:
    with counting.client(counting.token()) as client:
        yield client


def _asking(admin: httpx.Client) -> str:
    task_id = submit(admin, envelope("count.ask", matter={"id": uuid4().hex}))["task_id"]
    ended(admin, task_id, within=("input_required",))
    return task_id


def _on_record(counting: Server, task_id: str, operation: str) -> list[tuple[str, str | None]]:
    """The refusals of an operation on a task: whose it was, and the code."""
    records = records_of(counting, task_id, operation=operation)
    return [(one["subject"], one["code"]) for one in records if one["outcome"] != "done"]


def test_a_second_answer_to_the_same_question_is_refused(counting: Server, admin: httpx.Client, call: Call) -> None:
    task_id = _asking(admin)
    call("admin", "task_provide_input", {"task_id": task_id, **ANSWER})
    before = ended(admin, task_id)

    refused = call("admin", "task_provide_input", {"task_id": task_id, "input": {"answer": "red"}})["error"]

    assert (refused["code"], refused["details"]["reason"]) == ("CONFLICT", "TASK_BUSY")
    assert status(admin, task_id) == before
    assert before["result"] == {"colour": "green"}
    assert _on_record(counting, task_id, "task.provide_input") == [("admin", "CONFLICT")]


@pytest.mark.parametrize(
    ("tool", "more", "reason"),
    [
        ("task_provide_input", ANSWER, "TASK_BUSY"),
        ("task_cancel", {}, "NOT_CANCELABLE"),
        ("task_retry", {}, "NOT_RETRYABLE"),
    ],
)
def test_what_comes_after_the_end_is_refused(
    counting: Server, admin: httpx.Client, call: Call, tool: str, more: Json, reason: str
) -> None:
    task_id = _asking(admin)
    admin.post(f"/api/tasks/{task_id}/cancel", json={})
    before = status(admin, task_id)

    refused = call("admin", tool, {"task_id": task_id, **more})["error"]

    assert (refused["code"], refused["details"]["reason"]) == ("CONFLICT", reason)
    assert (before["state"], status(admin, task_id)) == ("cancelled", before)
    assert _on_record(counting, task_id, tool.replace("_", ".", 1)) == [("admin", "CONFLICT")]


@pytest.mark.parametrize(
    ("tool", "more"), [("task_provide_input", ANSWER), ("task_cancel", {}), ("task_transition", {"to": "cancelled"})]
)
def test_a_step_on_a_task_of_another_owner_is_refused(
    counting: Server, admin: httpx.Client, call: Call, tool: str, more: Json
) -> None:
    task_id = _asking(admin)
    before = status(admin, task_id)

    refused = call("mallory", tool, {"task_id": task_id, **more})["error"]

    assert refused["code"] in ("NOT_FOUND", "UNAUTHORIZED")
    assert (before["state"], status(admin, task_id)) == ("input_required", before)
    assert _on_record(counting, task_id, tool.replace("_", ".", 1)) == [("mallory", refused["code"])]


def test_a_transition_that_the_lifecycle_does_not_have_is_refused(
    counting: Server, admin: httpx.Client, call: Call
) -> None:
    task_id = _asking(admin)
    before = status(admin, task_id)

    refused = call("admin", "task_transition", {"task_id": task_id, "to": "succeeded"})["error"]

    after = status(admin, task_id)
    assert refused["code"] == "INVALID_TRANSITION"
    assert [(step["to"], step["refused"]) for step in after["history"][len(before["history"]) :]] == [
        ("succeeded", True)
    ]
    assert after["state"] == "input_required"
    assert _on_record(counting, task_id, "task.transition") == [("admin", "INVALID_TRANSITION")]


@pytest.fixture(scope="module")
def waiting() -> Iterator[Server]:
    """A server whose agent asks, and then works until a file is there."""
    with InProcess({"DRAGOMAN_AGENT": "tests.services.tasks.waiting_agent:agent", "PYTHONPATH": TREE}) as running:
        yield running


@pytest.mark.parametrize("path", ["/a2a", "/tasks/send"])
def test_a_second_answer_to_a_turn_is_refused(waiting: Server, tmp_path: Path, path: str) -> None:
    caller, gate = A2A(waiting), tmp_path / "go"
    task = caller.send(text("ask"))
    caller.send(text(str(gate), taskId=task["id"], configuration={"returnImmediately": True}))
    before = caller.get(task["id"])["history"]
    second = {"id": task["id"], "message": {"role": "user", "parts": [{"type": "text", "text": "/another"}]}}

    if path == "/a2a":
        refused = caller.error("SendMessage", text("/another", taskId=task["id"]))["data"][0]["metadata"]["code"]
    else:
        refused = caller.http.post(path, json=second).json()["code"]

    assert refused == "CONFLICT"
    assert caller.get(task["id"])["history"] == before
    assert _on_record(waiting, task["id"], "message.send") == [("admin", "CONFLICT")]
    gate.touch()
    wait_for(lambda: state(caller.get(task["id"])) == "COMPLETED", "the end of the turn")
