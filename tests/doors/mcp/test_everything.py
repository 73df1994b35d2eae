"""What an agent can show, ask and offer beyond words, as clients of MCP meet it."""

from typing import Any

import pytest

from tests.doors.mcp.calling import OLD, TASKS, Mcp
from tests.harness import Server, wait_for

FORMS = {"elicitation": {}}
FOLLOWS = {"extensions": {TASKS: {}}}
ASKS = "test_input_required_result_multiple_inputs"


@pytest.fixture
def caller(spoken: Server, everything: Server) -> Mcp:
    """One who may do everything."""
    return Mcp(everything, keys_of=spoken, role="super_admin")


def accepted(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


def test_a_tool_gives_pictures_sounds_and_texts_as_what_they_are(caller: Mcp) -> None:
    image = caller.call("test_image_content")
    sound = caller.call("test_audio_content")
    mixed = caller.call("test_multiple_content_types", era=OLD)

    assert [block["type"] for block in image["content"] + sound["content"]] == ["image", "audio"]
    assert [block["type"] for block in mixed["content"]] == ["text", "image", "resource"]
    assert mixed["content"][2]["resource"]["text"] == '{"test": "data", "value": 123}'
    assert "structuredContent" not in mixed


def test_questions_are_put_to_those_who_can_answer_them(caller: Mcp) -> None:
    everything = caller.call(ASKS, capabilities={"elicitation": {}, "sampling": {}, "roots": {}})
    forms = caller.call(ASKS, capabilities=FORMS)
    nothing = caller.call(ASKS)

    assert set(everything["inputRequests"]) == {"user_name", "greeting", "client_roots"}
    assert set(forms["inputRequests"]) == {"user_name"}
    assert nothing["structuredContent"]["state"] == "input_required"


def test_a_task_with_several_questions_waits_until_the_last_is_answered(caller: Mcp) -> None:
    """Answers come one by one, in any order; one that is no answer leaves its question open."""
    task_id = caller.call("multi_input", capabilities=FOLLOWS)["taskId"]

    def get() -> dict[str, Any]:
        return caller.ask("tasks/get", {"taskId": task_id}, capabilities=FOLLOWS)

    def update(**responses: Any) -> None:
        given = {"taskId": task_id, "inputResponses": responses}
        caller.ask("tasks/update", given, capabilities=FOLLOWS)

    first, second = wait_for(lambda: get().get("inputRequests"), "the questions")
    update(**{first: accepted(name=5)})
    unanswered = get()
    update(**{second: accepted(name="Grace")})
    halfway = get()
    update(**{first: accepted(name="Ada")})
    ended = wait_for(lambda: (task := get())["status"] == "completed" and task, "the end")

    assert set(unanswered["inputRequests"]) == {first, second}
    assert set(halfway["inputRequests"]) == {first}
    assert "Ada" in ended["result"]["content"][0]["text"]
    assert "Grace" in ended["result"]["content"][0]["text"]


def test_an_answer_that_comes_over_another_door_counts(caller: Mcp) -> None:
    """The question is the task's, not the client's; words answer a form with one text in it."""
    task_id = caller.call("test_input_required_result_elicitation")["structuredContent"]["task_id"]
    message = {"role": "ROLE_USER", "messageId": "m", "taskId": task_id, "parts": [{"text": "Ada"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}

    task = caller.http.post("/a2a", json=body, headers={"A2A-Version": "1.0"}).json()["result"]["task"]

    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "{'name': 'Ada'}" in task["status"]["message"]["parts"][0]["text"]


def test_a_question_that_is_declined_ends_the_work_and_one_that_is_put_aside_is_asked_again(caller: Mcp) -> None:
    name = "test_input_required_result_elicitation"
    asked = caller.call(name, capabilities=FORMS)
    again = {"name": name, "arguments": {}, "requestState": asked["requestState"]}

    aside = caller.ask(
        "tools/call", again | {"inputResponses": {"user_name": {"action": "cancel"}}}, capabilities=FORMS
    )
    declined = caller.ask(
        "tools/call", again | {"inputResponses": {"user_name": {"action": "decline"}}}, capabilities=FORMS
    )

    assert aside["resultType"] == "input_required"
    assert declined["isError"] is True
    assert declined["structuredContent"]["state"] == "cancelled"


def test_a_client_that_cannot_do_what_a_tool_needs_is_told_what_that_is(caller: Mcp) -> None:
    model = caller.error("tools/call", {"name": "test_missing_capability", "arguments": {}})
    task = caller.error("tools/call", {"name": "failing_job", "arguments": {}})

    assert (model["code"], model["data"]["requiredCapabilities"]) == (-32021, {"sampling": {}})
    assert (task["code"], list(task["data"]["requiredCapabilities"]["extensions"])) == (-32021, [TASKS])


def test_a_prompt_asks_for_what_it_lacks(caller: Mcp) -> None:
    asked = caller.ask("prompts/get", {"name": "check-change"}, capabilities=FORMS)
    given = {"name": "check-change", "inputResponses": {"arguments": accepted(change="import os")}}
    filled = caller.ask("prompts/get", given, capabilities=FORMS)
    refused = caller.error("prompts/get", {"name": "check-change"})

    assert asked["resultType"] == "input_required"
    assert "import os" in filled["messages"][0]["content"]["text"]
    assert refused["code"] == -32602


def test_what_an_agent_has_to_read_is_for_those_who_may_read(spoken: Server, everything: Server, caller: Mcp) -> None:
    narrow = Mcp(everything, keys_of=spoken, role="org_admin", scopes=["read:audit"])
    text = {"uri": "test://static-text"}
    made = {"uri": "test://template/a%20b/data"}

    read = caller.ask("resources/read", text)["contents"][0]
    filled = caller.ask("resources/read", made)["contents"][0]
    refused = narrow.error("resources/read", text)
    listed = narrow.ask("resources/list")["resources"]

    assert (read["mimeType"], read["text"]) == ("text/plain", "This is the content of the static text resource.")
    assert '"id": "a b"' in filled["text"]
    assert refused["code"] == -32602
    assert "test://" not in str(listed)
    assert caller.error("resources/read", {"uri": "test://template/a/b/data"})["code"] == -32602


def test_a_tool_that_is_not_offered_now_is_not_there(caller: Mcp) -> None:
    def names() -> set[str]:
        return {tool["name"] for tool in caller.ask("tools/list")["tools"]}

    if "switched_tool" in names():  # somebody else has left it on
        caller.call("test_trigger_tool_change")
    before, refused = names(), caller.error("tools/call", {"name": "switched_tool", "arguments": {}})
    caller.call("test_trigger_tool_change")
    during, called = names(), caller.call("switched_tool")
    caller.call("test_trigger_tool_change")

    assert during - before == {"switched_tool"}
    assert refused["code"] == -32602
    assert called["content"][0]["text"] == "You found it."
    assert names() == before
