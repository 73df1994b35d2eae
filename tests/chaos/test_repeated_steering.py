"""A step that is sent again with the same key happens once, and is answered as the first time, by every door."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from tests.chaos.callers import Caller, Json, envelope, message
from tests.chaos.installation import Installation
from tests.harness import wait_for


@dataclass(frozen=True, slots=True)
class Answer:
    """What a door said: the output, or the code of the error."""

    output: Json | None
    error: str | None
    replayed: bool


Door = Callable[[Caller, str, Json, str], Answer]
_PATHS = {
    "task_retry": "retry",
    "task_cancel": "cancel",
    "task_provide_input": "input",
    "task_transition": "transition",
}


def _rest(caller: Caller, tool: str, arguments: Json, key: str) -> Answer:
    given = dict(arguments)
    path = f"{given.pop('task_id')}/{_PATHS[tool]}" if tool in _PATHS else tool.split("_")[1]
    answer = caller.rest("POST", f"/api/tasks/{path}", given, key=key)
    replayed = answer.headers.get("idempotency-replayed") == "true"
    body = answer.json()
    return Answer(body["data"], None, replayed) if answer.is_success else Answer(None, body["code"], replayed)


def _mcp(caller: Caller, tool: str, arguments: Json, key: str) -> Answer:
    result = caller.mcp(tool, arguments, key=key)
    said, replayed = result["structuredContent"], bool(result.get("_meta", {}).get("dragoman/replayed"))
    return Answer(None, said["error"]["code"], replayed) if result.get("isError") else Answer(said, None, replayed)


def _a2a(caller: Caller, tool: str, arguments: Json, key: str) -> Answer:
    answer = caller.a2a("SendMessage", message({"data": {"tool": tool, "arguments": arguments}}), key=key)
    body = answer.json()
    replayed = answer.headers.get("idempotency-replayed") == "true"
    if "error" in body:
        return Answer(None, body["error"]["data"][0]["reason"], replayed)
    task = body["result"]["task"]
    if task["status"]["state"] == "TASK_STATE_FAILED":
        parts = task["status"]["message"]["parts"]
        return Answer(None, next(part["data"]["error"]["code"] for part in parts if "data" in part), replayed)
    return Answer(task["artifacts"][0]["parts"][0]["data"], None, replayed)


DOORS: dict[str, Door] = {"rest": _rest, "mcp": _mcp, "a2a": _a2a}


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> Door:
    """Every door that has these operations and takes keys."""
    return DOORS[request.param]


@pytest.fixture
def caller(site: Installation) -> Caller:
    """A caller at the first server."""
    return site.caller("s1")


def _asking(caller: Caller, matter: str) -> str:
    """A task that waits for the answer to its first question."""
    task_id = caller.submit(envelope("work.ask", {"name": "questions"}, matter={"id": matter}))
    caller.reaches(task_id, "input_required")
    return task_id


def _dead(caller: Caller, matter: str) -> str:
    """A task that was tried as often as it may be."""
    task_id = caller.submit(envelope("work.never", matter={"id": matter}))
    caller.reaches(task_id, "dead_letter")
    return task_id


def _check_replay(first: Answer, again: Answer) -> None:
    assert first.error is None
    assert (again.error, again.output, first.replayed, again.replayed) == (None, first.output, False, True)


def test_a_repeated_answer_is_not_taken_for_the_answer_to_the_next_question(caller: Caller, door: Door) -> None:
    task_id, key = _asking(caller, uuid4().hex), uuid4().hex
    told = {"task_id": task_id, "input": {"answer": "to the first"}}

    first = door(caller, "task_provide_input", told, key)
    _second_question(caller, task_id)
    again = door(caller, "task_provide_input", told, key)

    _check_replay(first, again)
    door(caller, "task_provide_input", {"task_id": task_id, "input": {"answer": "to the second"}}, uuid4().hex)
    assert caller.reaches(task_id)["result"] == {"answers": ["to the first", "to the second"]}


def test_a_repeated_retry_opens_one_run(caller: Caller, door: Door) -> None:
    task_id, key = _dead(caller, uuid4().hex), uuid4().hex

    first = door(caller, "task_retry", {"task_id": task_id}, key)
    caller.reaches(task_id, "dead_letter")
    again = door(caller, "task_retry", {"task_id": task_id}, key)

    _check_replay(first, again)
    ended = caller.reaches(task_id)
    assert (ended["state"], ended["run"]) == ("dead_letter", 2)


@pytest.mark.parametrize("tool", ["task_cancel", "task_transition"])
def test_a_repeated_end_is_answered_as_the_first(caller: Caller, door: Door, tool: str) -> None:
    given = {"task_id": _asking(caller, uuid4().hex), "reason": "called off"}
    given |= {"to": "cancelled"} if tool == "task_transition" else {}
    key = uuid4().hex

    first = door(caller, tool, given, key)
    again = door(caller, tool, given, key)

    _check_replay(first, again)
    steps = caller.task(given["task_id"])["history"]
    assert [(step["to"], step["refused"]) for step in steps if step["to"] == "cancelled"] == [("cancelled", False)]


def test_a_repeated_retry_of_many_leaves_those_alone_that_failed_since(caller: Caller, door: Door) -> None:
    matter, key = uuid4().hex, uuid4().hex
    before = _dead(caller, matter)

    first = door(caller, "task_retry_many", {"matter": matter}, key)
    caller.reaches(before, "dead_letter")
    since = _dead(caller, matter)
    again = door(caller, "task_retry_many", {"matter": matter}, key)

    _check_replay(first, again)
    assert [caller.reaches(task_id)["run"] for task_id in (before, since)] == [2, 1]


def test_a_repeated_end_of_many_leaves_those_alone_that_came_since(caller: Caller, door: Door) -> None:
    matter, key = uuid4().hex, uuid4().hex
    before = _asking(caller, matter)

    first = door(caller, "task_cancel_many", {"matter": matter}, key)
    since = _asking(caller, matter)
    again = door(caller, "task_cancel_many", {"matter": matter}, key)

    _check_replay(first, again)
    assert [caller.task(task_id)["state"] for task_id in (before, since)] == ["cancelled", "input_required"]


@pytest.mark.parametrize(
    ("tool", "first", "other"),
    [
        ("task_provide_input", {"input": {"answer": "yes"}}, {"input": {"answer": "no"}}),
        ("task_cancel", {"reason": "one"}, {"reason": "another"}),
        ("task_transition", {"to": "cancelled"}, {"to": "cancelled", "reason": "another"}),
    ],
)
def test_another_step_under_a_key_that_was_used_is_a_conflict(
    caller: Caller, door: Door, tool: str, first: dict[str, Any], other: dict[str, Any]
) -> None:
    task_id, key = _asking(caller, uuid4().hex), uuid4().hex

    done = door(caller, tool, {"task_id": task_id, **first}, key)
    refused = door(caller, tool, {"task_id": task_id, **other}, key)

    assert (done.error, refused.error) == (None, "IDEMPOTENCY_CONFLICT")


@pytest.mark.req("ORC-COR-1")
def test_a_key_that_was_used_by_one_door_is_known_to_the_others(caller: Caller) -> None:
    given = {"task_id": _asking(caller, uuid4().hex), "reason": "called off"}
    key = uuid4().hex

    first = _rest(caller, "task_cancel", given, key)
    again = _mcp(caller, "task_cancel", given, key)

    _check_replay(first, again)


def _second_question(caller: Caller, task_id: str) -> None:
    """Wait until the first answer was used and the second question is asked."""

    def asked() -> bool:
        task = caller.task(task_id)
        return task["state"] == "input_required" and "question 2" in str(task["question"])

    wait_for(asked, "the second question")
