from typing import Any

import pytest

from tests.backstage import sql
from tests.doors.a2a.calling import A2A, text
from tests.doors.a2a.test_v03 import call as call_03
from tests.doors.a2a.test_v03 import stream as stream_03
from tests.doors.a2a.test_v03 import text as text_03
from tests.harness import Server

WORDS = [{"text": "Direct message response"}]
AUTH = "TASK_STATE_AUTH_REQUIRED"


def tasks_of(caller: A2A, context_id: str) -> list[Any]:
    return caller.call("ListTasks", {"contextId": context_id})["tasks"]


@pytest.mark.parametrize("asked", [text("tck-message-response"), text("hello", messageId="tck-message-response-1")])
def test_an_answer_can_be_a_message_of_which_no_task_is_kept(a2a: A2A, asked: dict[str, Any]) -> None:
    result = a2a.call("SendMessage", asked)

    assert set(result) == {"message"}
    assert (result["message"]["role"], result["message"]["parts"]) == ("ROLE_AGENT", WORDS)
    assert "taskId" not in result["message"]
    assert tasks_of(a2a, result["message"]["contextId"]) == []


def test_nothing_is_kept_of_the_state_of_such_an_answer_either(heavy: Server) -> None:
    sql(heavy, "DELETE FROM task_data")

    result = A2A(heavy).call("SendMessage", text("noted 2 10"))

    assert set(result) == {"message"}
    assert sql(heavy, "SELECT key FROM task_data") == []


def test_a_stream_of_such_an_answer_is_exactly_that_message(a2a: A2A) -> None:
    events = [event for _, event in a2a.events("SendStreamingMessage", text("tck-message-response"))]

    assert [set(event) for event in events] == [{"message"}]
    assert events[0]["message"]["parts"] == WORDS


def test_the_http_binding_answers_with_the_message_too(a2a: A2A) -> None:
    answer = a2a.http.post("/a2a/rest/message:send", json=text("tck-message-response"), headers={"A2A-Version": "1.0"})

    assert answer.status_code == 200
    assert answer.json()["message"]["parts"] == WORDS


def test_one_who_does_not_wait_gets_a_task_that_ends_with_the_message(a2a: A2A) -> None:
    task = a2a.send(text("tck-message-response", configuration={"returnImmediately": True}))
    list(a2a.events("SubscribeToTask", {"id": task["id"]}, **{"Last-Event-ID": "0"}))

    done = a2a.call("GetTask", {"id": task["id"]})
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert done["status"]["message"]["parts"] == WORDS


def test_0_3_has_such_messages_as_well(a2a: A2A) -> None:
    said = call_03(a2a, "message/send", text_03("tck-message-response"))
    streamed = [event for _, event in stream_03(a2a, "message/stream", text_03("tck-message-response"))]

    assert [one["kind"] for one in (said, *streamed)] == ["message", "message"]


def test_0_1_knows_tasks_alone_and_gets_one(a2a: A2A) -> None:
    message = {"role": "user", "parts": [{"type": "text", "text": "tck-message-response"}]}

    task = a2a.http.post("/tasks/send", json={"message": message}).json()

    assert task["status"]["state"] == "completed"
    assert a2a.call("GetTask", {"id": task["id"]})["status"]["message"]["parts"] == WORDS


def test_a_task_that_waits_for_an_authorization_says_so_and_goes_on_when_it_is_answered(a2a: A2A) -> None:
    waiting = a2a.send(text("tck-auth-required"))
    listed = a2a.call("ListTasks", {"contextId": waiting["contextId"], "status": AUTH})
    others = a2a.call("ListTasks", {"contextId": waiting["contextId"], "status": "TASK_STATE_INPUT_REQUIRED"})
    done = a2a.send(text("done", taskId=waiting["id"]))

    assert waiting["status"]["state"] == AUTH
    assert [task["id"] for task in listed["tasks"]] == [waiting["id"]]
    assert (others["tasks"], others["totalSize"]) == ([], 0)
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_stream_ends_where_an_authorization_is_needed(a2a: A2A) -> None:
    events = [event for _, event in a2a.events("SendStreamingMessage", text("tck-auth-required"))]

    assert events[-1]["statusUpdate"]["status"]["state"] == AUTH


def test_older_versions_show_it_as_they_can(a2a: A2A) -> None:
    message = {"role": "user", "parts": [{"type": "text", "text": "tck-auth-required"}]}

    newer = call_03(a2a, "message/send", text_03("tck-auth-required"))
    older = a2a.http.post("/tasks/send", json={"message": message}).json()

    assert newer["status"]["state"] == "auth-required"
    assert (older["status"]["state"], older["metadata"]["state"]) == ("input-required", "auth-required")
