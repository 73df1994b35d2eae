"""Free text finds its way: by the configured model, or by a question to the caller."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.doors.a2a.calling import A2A, text, tool
from tests.harness import InProcess, Server
from tests.kit.web import Reply, Web, answer, drop

OPEN = {"DRAGOMAN_LIMITS__A2A_TENANT_PER_MIN": "1000000"}


def choice(**fields: Any) -> Reply:
    message = {"role": "assistant", "content": json.dumps(fields)}
    return answer(200, {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]})


def state(task: dict[str, Any]) -> str:
    return task["status"]["state"].removeprefix("TASK_STATE_")


def words(task: dict[str, Any]) -> str:
    return task["status"]["message"]["parts"][0]["text"]


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with Web() as running:
        yield running


@pytest.fixture(scope="module")
def routed(web: Web) -> Iterator[Server]:
    model = {
        "DRAGOMAN_LLM": "compatible:large",
        "DRAGOMAN_LLM_ROUTER": "compatible:small",
        "DRAGOMAN_LLM_BASE_URL": web.url,
        "DRAGOMAN_LLM_API_KEY": "key-of-the-model",
    }
    with InProcess({**OPEN, **model}) as running:
        yield running


@pytest.fixture
def asker(routed: Server, web: Web) -> A2A:
    web.script.clear()
    web.seen.clear()
    return A2A(routed)


@pytest.mark.req("RAD-H4-1", "RAD-H4-2")
def test_the_small_model_finds_the_operation_and_sees_descriptions_and_schemas_only(routed: Server, web: Web) -> None:
    asker = A2A(routed, user="lovelace")
    named = asker.send(tool("identity_show"))
    before = len(web.seen)
    web.script.append(choice(skill_id="identity", tool="identity_show", arguments="{}"))

    found = asker.send(text("who on earth am I?"))

    assert (before, len(web.seen)) == (0, 1)
    assert state(named) == state(found) == "COMPLETED"
    assert found["artifacts"] == named["artifacts"]
    asked = web.seen[0]
    assert (asked.body["model"], asked.headers["authorization"]) == ("small", "Bearer key-of-the-model")
    system, said = asked.body["messages"]
    assert said["content"] == "who on earth am I?"
    assert '"identity_show"' in system["content"]
    assert found["artifacts"][0]["parts"][0]["data"]["subject"] not in json.dumps(asked.body)


def test_what_destroys_something_is_not_even_offered(asker: A2A, web: Web) -> None:
    web.script.append(choice(skill_id="tenant", tool="tenant_delete", arguments="{}"))

    task = asker.send(text("away with it all"))

    assert state(task) == "REJECTED"
    assert "tenant_delete" not in web.seen[0].body["messages"][0]["content"]


def test_arguments_that_do_not_fit_are_a_question_to_the_caller(asker: A2A, web: Web) -> None:
    web.script.append(choice(skill_id="user", tool="user_get", arguments='{"whom": "Ada"}'))

    task = asker.send(text("what do we know of Ada?"))

    assert state(task) == "INPUT_REQUIRED"
    assert "whom" in words(task)


def test_an_operation_that_the_caller_may_not_run_is_refused_by_the_gate(routed: Server, asker: A2A, web: Web) -> None:
    web.script.append(choice(skill_id="audit", tool="audit_list", arguments="{}"))

    task = A2A(routed, role="operator").send(text("what has happened here?"))

    assert state(task) == "FAILED"
    assert task["status"]["message"]["parts"][-1]["data"]["error"]["code"] == "UNAUTHORIZED"


@pytest.mark.parametrize(
    "replies",
    [
        [choice(skill_id=None, question=None)],
        [choice(skill_id="nobody", tool="nothing", arguments="[")],
        [answer(500, "broken"), answer(500, "broken")],
        [answer(401, "no")],
        [answer(200, "garbage"), answer(200, "garbage")],
        [drop, drop],
    ],
    ids=["none", "unknown", "broken", "refused", "garbage", "gone"],
)
def test_where_the_model_is_of_no_use_the_caller_is_asked_and_can_pick(
    asker: A2A, web: Web, replies: list[Reply]
) -> None:
    web.script.extend(replies)

    task = asker.send(text("hm"))

    assert state(task) == "INPUT_REQUIRED"
    assert "- identity: " in words(task)


@pytest.fixture(scope="module")
def modelless() -> Iterator[Server]:
    with InProcess(OPEN) as running:
        yield running


def test_without_a_model_the_caller_is_asked_and_an_answer_in_the_form_of_a_call_is_run(modelless: Server) -> None:
    caller = A2A(modelless)

    asked = caller.send(text("who am I?"))
    done = caller.send(tool("identity_show", taskId=asked["id"]))

    assert state(asked) == "INPUT_REQUIRED"
    assert "- identity: " in words(asked)
    assert state(done) == "COMPLETED"


def test_a_skill_of_operations_that_is_picked_by_name_says_how_it_is_used(modelless: Server) -> None:
    caller = A2A(modelless)

    asked = caller.send(text("who am I?"))
    told = caller.send(text("identity", taskId=asked["id"]))

    assert state(told) == "REJECTED"
    assert "identity_show" in words(told)
