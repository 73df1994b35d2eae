"""Who may answer a task that waits, and what becomes of an answer that is refused."""

from typing import Any

import pytest

from tests.backstage import records_of
from tests.doors.a2a.calling import A2A, state, text, tool
from tests.harness import Server


def waiting(caller: A2A) -> dict[str, Any]:
    task = caller.send(text("tck-input-required"))
    assert state(task) == "INPUT_REQUIRED"
    return task


@pytest.mark.parametrize("path", ["/a2a", "/tasks/send"])
def test_one_who_may_not_send_messages_cannot_answer_by_naming_a_tool_either(served: Server, path: str) -> None:
    """A tool that the caller may use would otherwise run in the place of the answer, and end somebody's task."""
    owner = A2A(served)
    task = waiting(owner)
    viewer = served.client(served.token(user="eve", role="viewer"))
    parts = {"data": {"tool": "identity_show", "arguments": {}}}
    bodies = {
        "/a2a": {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "SendMessage",
            "params": tool("identity_show", taskId=task["id"]),
        },
        "/tasks/send": {"id": task["id"], "message": {"role": "user", "parts": [{"type": "data", **parts}]}},
    }

    with viewer:
        answer = viewer.post(path, json=bodies[path], headers={"A2A-Version": "1.0"} if path == "/a2a" else {})

    assert (answer.status_code, answer.json()["code"]) == (403, "UNAUTHORIZED")
    assert state(owner.get(task["id"])) == "INPUT_REQUIRED"
    assert {one["code"] for one in records_of(served, None, subject="eve", operation="message.send")} == {
        "UNAUTHORIZED"
    }


def test_an_answer_to_a_task_that_has_ended_is_refused_and_on_record(served: Server) -> None:
    owner = A2A(served)
    task = waiting(owner)
    owner.call("CancelTask", {"id": task["id"]})

    late = owner.error("SendMessage", text("another", taskId=task["id"]))

    assert late["data"][0]["reason"] == "UNSUPPORTED_OPERATION"
    sent = records_of(served, task["id"], operation="message.send")
    assert sorted(one["outcome"] for one in sent) == ["done", "failed"]
