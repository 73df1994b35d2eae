"""Skills as tools, and the tasks extension: one task, whichever door began it."""

from typing import Any
from uuid import uuid4

import pytest
from mcp.client import Client
from mcp_types import ElicitRequestParams, ElicitResult

from tests.doors.mcp.calling import MODERN, OLD, TASKS, Mcp, official, refused_answers
from tests.doors.rest.calling import new_tenant
from tests.harness import Server, wait_for

pytestmark = pytest.mark.anyio
SKILL = "conformance"
DECLARES = {"extensions": {TASKS: {}}}
ASKS = {"elicitation": {"form": {}}}
MISSING = "01890a5d-ac96-774b-bcce-b302099a8057"


def begun(mcp: Mcp, said: str) -> str:
    """The id of a task that a client of the extension began."""
    handle = mcp.call(SKILL, {"text": said}, capabilities=DECLARES)
    assert handle["resultType"] == "task"
    return handle["taskId"]


def get(mcp: Mcp, task_id: str) -> dict[str, Any]:
    return mcp.ask("tasks/get", {"taskId": task_id}, capabilities=DECLARES)


def rested(mcp: Mcp, task_id: str) -> dict[str, Any]:
    """The task once nothing more happens to it by itself."""
    return wait_for(lambda: (task := get(mcp, task_id))["status"] != "working" and task, "the task to rest")


def over_a2a(mcp: Mcp, method: str, params: dict[str, Any]) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return mcp.http.post("/a2a", json=body, headers={"A2A-Version": "1.0"}).json()


@pytest.mark.parametrize("era", [OLD, MODERN])
def test_a_skill_is_a_tool_that_runs_to_the_end_for_a_client_that_knows_no_tasks(mcp: Mcp, era: str) -> None:
    result = mcp.call(SKILL, {"text": "tck-artifact-data please"}, era=era)

    assert result["isError"] is False
    shown = result["structuredContent"]
    assert shown["state"] == "succeeded"
    assert shown["artifacts"][0]["parts"][0]["data"] == {"key": "value", "count": 42}
    stored = over_a2a(mcp, "GetTask", {"id": shown["task_id"]})["result"]
    assert stored["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_calls_a_skill_and_hears_of_its_progress(spoken: Server, mode: str) -> None:
    heard: list[tuple[float, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    async with official(spoken, mode=mode) as client:  # pyright: ignore[reportArgumentType]
        result = await client.call_tool(SKILL, {"text": "tck-stream hello"}, progress_callback=hear)

    assert not result.is_error
    assert result.structured_content["state"] == "succeeded"
    assert (50.0, "working") in heard


def test_files_come_as_content_of_their_kind(mcp: Mcp) -> None:
    inline = mcp.call(SKILL, {"text": "tck-artifact-file"})["content"]
    linked = mcp.call(SKILL, {"text": "tck-artifact-file-url"})["content"]

    assert inline[0]["resource"]["mimeType"] == "text/plain"
    assert linked[0]["type"] == "resource_link"


def test_a_skill_that_fails_is_an_answer(mcp: Mcp) -> None:
    failed = mcp.call(SKILL, {"text": "tck-task-failure"})
    rejected = mcp.call(SKILL, {"text": "tck-reject"})
    crashed = mcp.call(SKILL, {"text": "tck-crash"})

    answers = (failed, rejected, crashed)
    codes = [answer["structuredContent"]["error"]["code"] for answer in answers]
    assert codes == ["SKILL_FAILED", "SKILL_REJECTED", "INTERNAL_ERROR"]
    assert all(answer["isError"] for answer in answers)
    assert "secret" not in str(crashed)


def test_a_client_of_the_extension_gets_a_task_and_its_result_later(mcp: Mcp) -> None:
    task = rested(mcp, begun(mcp, "tck-artifact-text"))

    assert (task["resultType"], task["status"], task["ttlMs"]) == ("complete", "completed", None)
    assert task["result"]["isError"] is False
    assert task["result"]["content"][0]["text"] == "Generated text content"


def test_failures_complete_and_only_crashes_fail(mcp: Mcp) -> None:
    failed = rested(mcp, begun(mcp, "tck-task-failure"))
    crashed = rested(mcp, begun(mcp, "tck-crash"))

    assert (failed["status"], failed["result"]["isError"]) == ("completed", True)
    assert (crashed["status"], crashed["error"]["code"]) == ("failed", -32603)


def test_a_task_that_asks_is_answered_once_and_every_question_has_its_own_key(mcp: Mcp) -> None:
    task_id = begun(mcp, "tck-input-required")
    asking = rested(mcp, task_id)
    (key, question), *_ = asking["inputRequests"].items()
    answer = {"taskId": task_id, "inputResponses": {key: {"action": "accept", "content": {"answer": "done"}}}}

    wrong = {"taskId": task_id, "inputResponses": {"other": {"action": "accept", "content": {"answer": "x"}}}}
    mcp.ask("tasks/update", wrong, capabilities=DECLARES)
    assert get(mcp, task_id)["status"] == "input_required"
    mcp.ask("tasks/update", answer, capabilities=DECLARES)
    ended = rested(mcp, task_id)
    mcp.ask("tasks/update", answer, capabilities=DECLARES)

    assert question["method"] == "elicitation/create"
    assert question["params"]["message"] == "What else?"
    assert ended["status"] == "completed"
    assert get(mcp, task_id) == ended


def test_a_task_is_cancelled_once_and_cancelling_again_changes_nothing(mcp: Mcp) -> None:
    task_id = begun(mcp, "tck-cancel")

    first = mcp.ask("tasks/cancel", {"taskId": task_id}, capabilities=DECLARES)
    again = mcp.ask("tasks/cancel", {"taskId": task_id}, capabilities=DECLARES)

    assert first["resultType"] == again["resultType"] == "complete"
    assert get(mcp, task_id)["status"] == "cancelled"


def test_a_question_that_is_declined_ends_the_task_and_one_that_is_put_aside_waits(mcp: Mcp) -> None:
    task_id = begun(mcp, "tck-input-required")
    key = next(iter(rested(mcp, task_id)["inputRequests"]))

    mcp.ask("tasks/update", {"taskId": task_id, "inputResponses": {key: {"action": "cancel"}}}, capabilities=DECLARES)
    assert get(mcp, task_id)["status"] == "input_required"
    mcp.ask("tasks/update", {"taskId": task_id, "inputResponses": {key: {"action": "decline"}}}, capabilities=DECLARES)

    assert get(mcp, task_id)["status"] == "cancelled"


def test_a_long_operation_is_a_task_for_those_who_know_tasks_and_has_its_own_output(mcp: Mcp) -> None:
    """There is no remote, so it fails; and what is wrong with its arguments is said before there is a task."""
    handle = mcp.call("knowledge_sync", {}, capabilities=DECLARES)
    at_once = mcp.call("knowledge_sync", {})
    wrong = mcp.call("knowledge_sync", {"colour": "red"}, capabilities=DECLARES)

    ended = rested(mcp, handle["taskId"])
    assert handle["resultType"] == "task"
    assert ended["result"]["isError"] is at_once["isError"] is True
    errors = [answer["structuredContent"]["error"]["code"] for answer in (ended["result"], at_once)]
    assert errors[0] == errors[1]
    assert wrong["structuredContent"]["error"]["code"] == "INVALID_PARAMS"


def test_a_task_that_ran_a_named_tool_shows_that_tools_output(mcp: Mcp) -> None:
    part = {"data": {"tool": "identity_show", "arguments": {}}}
    message = {"role": "ROLE_USER", "messageId": "m", "parts": [part]}
    task_id = over_a2a(mcp, "SendMessage", {"message": message})["result"]["task"]["id"]

    assert get(mcp, task_id)["result"]["structuredContent"] == mcp.call("identity_show")["structuredContent"]


def test_one_task_is_the_same_on_both_doors(mcp: Mcp) -> None:
    """Begun here it is cancelled there, and begun there it is read and answered here, under the same id."""
    ours = begun(mcp, "tck-input-required")
    rested(mcp, ours)
    message = {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "tck-input-required"}]}
    theirs = over_a2a(mcp, "SendMessage", {"message": message})["result"]["task"]["id"]

    cancelled = over_a2a(mcp, "CancelTask", {"id": ours})["result"]
    key = next(iter(get(mcp, theirs)["inputRequests"]))
    answer = {key: {"action": "accept", "content": {"answer": "done"}}}
    mcp.ask("tasks/update", {"taskId": theirs, "inputResponses": answer}, capabilities=DECLARES)

    assert cancelled["status"]["state"] == "TASK_STATE_CANCELED"
    assert get(mcp, ours)["status"] == "cancelled"
    assert rested(mcp, theirs)["status"] == "completed"
    assert over_a2a(mcp, "GetTask", {"id": theirs})["result"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_an_answer_that_is_late_doubled_foreign_or_to_nothing_is_on_record(spoken: Server, rival: Mcp) -> None:
    mcp = Mcp(spoken, tenant=new_tenant(spoken)["slug"])
    task_id = begun(mcp, "tck-input-required")
    key = next(iter(rested(mcp, task_id)["inputRequests"]))
    answer = {"action": "accept", "content": {"answer": "done"}}
    given = {"taskId": task_id, "inputResponses": {key: answer}}

    mcp.ask("tasks/update", {"taskId": task_id, "inputResponses": {"other": answer}}, capabilities=DECLARES)
    rival.error("tasks/update", given, capabilities=DECLARES)
    accepted = refused_answers(mcp)
    mcp.ask("tasks/update", given, capabilities=DECLARES)
    rested(mcp, task_id)
    mcp.ask("tasks/update", given, capabilities=DECLARES)
    mcp.error("tasks/update", given | {"taskId": MISSING}, capabilities=DECLARES)

    assert accepted == [(task_id, "CONFLICT")]
    assert refused_answers(mcp) == [*accepted, (task_id, "CONFLICT"), (MISSING, "NOT_FOUND")]
    assert refused_answers(rival) == [(task_id, "NOT_FOUND")]


@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel", "tasks/update"])
def test_a_foreign_task_looks_like_one_that_is_not_there(mcp: Mcp, rival: Mcp, method: str) -> None:
    task_id = begun(mcp, "tck-input-required")
    rested(mcp, task_id)
    more = {"inputResponses": {}} if method == "tasks/update" else {}

    foreign = rival.error(method, {"taskId": task_id, **more}, capabilities=DECLARES)
    missing = rival.error(method, {"taskId": MISSING, **more}, capabilities=DECLARES)

    assert foreign["code"] == missing["code"] == -32602
    assert foreign["message"].replace(task_id, MISSING) == missing["message"]
    assert get(mcp, task_id)["status"] == "input_required"


@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel", "tasks/update"])
def test_the_extension_is_for_those_who_declare_it_and_name_the_task_to_proxies(mcp: Mcp, method: str) -> None:
    more = {"inputResponses": {}} if method == "tasks/update" else {}

    undeclared = mcp.error(method, {"taskId": MISSING, **more})
    mismatched = mcp.error(method, {"taskId": MISSING, **more}, capabilities=DECLARES, mcp_name="another")

    assert undeclared["code"] == -32021
    assert TASKS in undeclared["data"]["requiredCapabilities"]["extensions"]
    assert mismatched["code"] == -32020


def test_the_older_methods_of_tasks_are_not_there(mcp: Mcp) -> None:
    assert mcp.error("tasks/list", {}, capabilities=DECLARES)["code"] == -32601
    assert mcp.error("tasks/result", {"taskId": MISSING}, capabilities=DECLARES)["code"] == -32601


def test_a_client_that_can_ask_its_user_gets_the_question_and_calls_again_once(spoken: Server, rival: Mcp) -> None:
    """The state is sealed for this caller and these arguments; what it stands for happens once, or is on record."""
    mcp, arguments = Mcp(spoken, tenant=new_tenant(spoken)["slug"]), {"text": "tck-input-required"}
    asked = mcp.call(SKILL, arguments, capabilities=ASKS)
    key = next(iter(asked["inputRequests"]))
    retry = {
        "name": SKILL,
        "arguments": arguments,
        "requestState": asked["requestState"],
        "inputResponses": {key: {"action": "accept", "content": {"answer": "done"}}},
    }

    stolen = rival.error("tools/call", retry, capabilities=ASKS)
    changed = mcp.error("tools/call", retry | {"arguments": {"text": "other"}}, capabilities=ASKS)
    done = mcp.ask("tools/call", retry, capabilities=ASKS)
    replayed = mcp.error("tools/call", retry, capabilities=ASKS)

    assert asked["resultType"] == "input_required"
    assert done["structuredContent"]["state"] == "succeeded"
    assert [error["code"] for error in (stolen, changed, replayed)] == [-32602] * 3
    assert refused_answers(mcp) == [(done["structuredContent"]["task_id"], "CONFLICT")]


async def test_the_official_client_asks_its_user_and_finishes_by_itself(spoken: Server) -> None:
    async def ask(_: Any, params: ElicitRequestParams) -> ElicitResult:
        assert params.message == "What else?"
        return ElicitResult(action="accept", content={"answer": "done"})

    async with official(spoken, mode="auto", elicitation_callback=ask) as client:
        assert isinstance(client, Client)
        result = await client.call_tool(SKILL, {"text": "tck-input-required"})

    assert result.structured_content["state"] == "succeeded"


def test_a_client_that_can_do_neither_goes_on_by_the_id(mcp: Mcp) -> None:
    asked = mcp.call(SKILL, {"text": "tck-input-required"})["structuredContent"]
    done = mcp.call(SKILL, {"text": "done", "task_id": asked["task_id"]})["structuredContent"]

    assert asked["state"] == "input_required"
    assert (done["state"], done["task_id"]) == ("succeeded", asked["task_id"])


def test_a_key_begins_one_task(mcp: Mcp) -> None:
    given = {"text": "tck-artifact-text", "idempotency_key": uuid4().hex}

    first, again = (mcp.call(SKILL, given)["structuredContent"] for _ in range(2))

    assert first == again


@pytest.mark.parametrize("key", [5, None, ["a"], "", "b"])
def test_a_key_of_a_skill_or_an_agents_tool_that_cannot_be_used_is_refused(
    spoken: Server, everything: Server, mcp: Mcp, key: Any
) -> None:
    """Not text, empty, or another than the argument says."""
    meta = {"dragoman/idempotencyKey": key}
    elsewhere = Mcp(everything, keys_of=spoken, role="super_admin")

    answers = [mcp.call(SKILL, {"text": "tck-artifact-text", "idempotency_key": "a"}, meta=meta)]
    if key != "b":
        answers.append(mcp.call(SKILL, {"text": "tck-artifact-text"}, meta=meta))
        answers.append(elsewhere.call("test_simple_text", {}, meta=meta))

    codes = {answer["structuredContent"]["error"]["code"] for answer in answers}
    assert codes == {"INVALID_PARAMS"}


def test_a_skill_that_is_told_nothing_says_so(mcp: Mcp) -> None:
    nothing = mcp.call(SKILL, {})
    wrong = mcp.call(SKILL, {"text": 5, "colour": "red"})

    assert nothing["structuredContent"]["error"]["code"] == "INVALID_PARAMS"
    assert {one["field"] for one in wrong["structuredContent"]["error"]["details"]["errors"]} == {"text", "colour"}


def test_who_may_not_send_messages_has_no_skills_and_no_tasks(spoken: Server, mcp: Mcp) -> None:
    task_id = begun(mcp, "tck-input-required")
    viewer = Mcp(spoken, role="viewer")

    names = {tool["name"] for tool in viewer.ask("tools/list")["tools"]}
    called = viewer.call(SKILL, {"text": "hello"})
    cancelled = viewer.error("tasks/cancel", {"taskId": task_id}, capabilities=DECLARES)

    assert SKILL not in names
    assert called["structuredContent"]["error"]["code"] == "UNAUTHORIZED"
    assert cancelled["data"]["code"] == "UNAUTHORIZED"
    assert viewer.ask("tasks/get", {"taskId": task_id}, capabilities=DECLARES)["taskId"] == task_id
