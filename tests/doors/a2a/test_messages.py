from pathlib import Path
from typing import Any

import pytest

from tests.backstage import metrics
from tests.doors.a2a.calling import A2A, busy, error_of, params, state, text, tool
from tests.harness import Server, wait_for


@pytest.mark.req("RAD-H4-1")
def test_a_named_tool_is_called_and_its_output_is_the_artifact(a2a: A2A) -> None:
    task = a2a.send(tool("identity_show"))

    assert state(task) == "COMPLETED"
    [artifact] = task["artifacts"]
    [part] = artifact["parts"]
    assert (part["data"]["tenant"], part["data"]["subject"]) == ("demo", "admin")


@pytest.mark.req("MKS-ERR-1")
def test_wrong_arguments_of_a_tool_end_in_a_failed_task_that_names_them(a2a: A2A) -> None:
    task = a2a.send(tool("user_get", {"user_id": "nobody", "extra": 1}))

    error = error_of(task)
    assert (state(task), error["code"]) == ("FAILED", "INVALID_PARAMS")
    assert {one["field"] for one in error["details"]["errors"]} == {"user_id", "extra"}


@pytest.mark.req("MKS-ERR-2")
@pytest.mark.parametrize("role", ["viewer", "analyst", "agent"])
def test_a_tool_without_the_permission_ends_in_a_failed_task(served: Server, role: str) -> None:
    task = A2A(served, role=role).send(tool("tenant_create", {"name": "Mine", "slug": "mine"}))

    assert (state(task), error_of(task)["code"]) == ("FAILED", "UNAUTHORIZED")


def test_one_who_may_only_look_may_call_a_tool_that_only_looks(served: Server) -> None:
    assert state(A2A(served, role="viewer").send(tool("identity_show"))) == "COMPLETED"


def test_one_who_may_not_work_cannot_talk_to_the_agent(served: Server) -> None:
    response = A2A(served, role="viewer").post(
        {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": text("hello")}
    )

    assert (response.status_code, response.json()["code"]) == (403, "UNAUTHORIZED")


def test_an_unknown_tool_is_a_failed_task(a2a: A2A) -> None:
    task = a2a.send(tool("nothing_do"))

    assert (state(task), error_of(task)["code"]) == ("FAILED", "NOT_FOUND")


@pytest.mark.req("RAD-H2-2")
def test_an_exception_nobody_planned_for_is_a_failed_task_that_shows_nothing(a2a: A2A, served: Server) -> None:
    task = a2a.send(text("tck-crash hush-hush"))

    assert (state(task), error_of(task)["code"]) == ("FAILED", "INTERNAL_ERROR")
    assert "secret" not in str(task["status"])
    wait_for(lambda: f"secret of {task['id']}: tck-crash hush-hush" in served.log.read_text(), "the log")


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("tck-complete-task", "COMPLETED"),
        ("tck-task-failure", "FAILED"),
        ("tck-reject-task", "REJECTED"),
        ("tck-input-required", "INPUT_REQUIRED"),
    ],
)
def test_a_send_waits_until_the_task_rests(a2a: A2A, prefix: str, expected: str) -> None:
    by_text = a2a.send(text(prefix))
    by_id = a2a.send(text("hello", messageId=f"{prefix}-1"))

    assert (state(by_text), state(by_id)) == (expected, expected)
    assert a2a.get(by_text["id"]) == by_text


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("text", {"text": "Generated text content", "mediaType": "text/plain"}),
        ("data", {"data": {"key": "value", "count": 42}, "mediaType": "application/json"}),
        (
            "file",
            {"raw": "R2VuZXJhdGVkIGZpbGUgY29udGVudAo=", "filename": "output.txt", "mediaType": "text/plain"},
        ),
        ("file-url", {"url": "https://example.com/output.txt", "filename": "output.txt", "mediaType": "text/plain"}),
    ],
)
def test_artifacts_of_every_kind(a2a: A2A, kind: str, part: dict[str, Any]) -> None:
    task = a2a.send(text(f"tck-artifact-{kind}"))

    assert [artifact["parts"] for artifact in task["artifacts"]] == [[part]]


def test_a_send_that_does_not_wait_answers_at_once_and_the_task_goes_on(a2a: A2A, tmp_path: Path) -> None:
    begun = a2a.send(busy(tmp_path / "go", configuration={"returnImmediately": True}))

    assert state(begun) == "WORKING"
    (tmp_path / "go").touch()
    done = wait_for(lambda: (found := a2a.get(begun["id"])) and state(found) == "COMPLETED" and found, "the end")
    assert [artifact["name"] for artifact in done["artifacts"]] == ["result"]


@pytest.mark.parametrize(("length", "said"), [(None, 4), (0, 0), (1, 1), (2, 2), (100, 4)])
def test_the_history_is_as_long_as_it_was_asked_for(a2a: A2A, length: int | None, said: int) -> None:
    asked = {} if length is None else {"historyLength": length}
    task = a2a.send(text("tck-multi-turn"))

    answered = a2a.send(text("more", taskId=task["id"], configuration=asked))
    shown = a2a.get(task["id"], **asked)

    everything = a2a.get(task["id"])["history"]
    assert [message["role"] for message in everything] == ["ROLE_USER", "ROLE_AGENT"] * 2
    assert answered.get("history", []) == shown.get("history", []) == everything[4 - said :]


def test_a_conversation_goes_on_until_it_is_done(a2a: A2A) -> None:
    first = a2a.send(text("tck-multi-turn begin"))
    second = a2a.send(text("more", taskId=first["id"], contextId=first["contextId"]))
    third = a2a.send(text("done", taskId=first["id"]))

    assert [state(task) for task in (first, second, third)] == ["INPUT_REQUIRED", "INPUT_REQUIRED", "COMPLETED"]
    assert {task["id"] for task in (first, second, third)} == {first["id"]}
    assert {task["contextId"] for task in (first, second, third)} == {first["contextId"]}
    assert third["artifacts"][0]["parts"] == [{"data": {"first": "tck-multi-turn begin", "last": "done"}}]


def test_a_task_that_ended_takes_no_message(a2a: A2A) -> None:
    task = a2a.send(text("hello"))

    error = a2a.error("SendMessage", text("again", taskId=task["id"]))

    assert (error["code"], error["data"][0]["reason"]) == (-32004, "UNSUPPORTED_OPERATION")


def test_a_task_that_works_takes_no_message(a2a: A2A) -> None:
    task = a2a.send(text("tck-cancel", configuration={"returnImmediately": True}))

    error = a2a.error("SendMessage", text("again", taskId=task["id"]))

    assert error["code"] == -32004
    a2a.call("CancelTask", {"id": task["id"]})


def test_the_wrong_context_for_a_task_is_refused(a2a: A2A) -> None:
    task, other = a2a.send(text("tck-multi-turn")), a2a.send(text("hello"))

    assert a2a.error("SendMessage", text("x", taskId=task["id"], contextId=other["contextId"]))["code"] == -32602
    assert state(a2a.get(task["id"])) == "INPUT_REQUIRED"


def test_one_message_id_for_two_messages_makes_two_tasks(a2a: A2A) -> None:
    first, second = (a2a.send(text("hello", messageId="the-same")) for _ in range(2))

    assert first["id"] != second["id"]


def test_a_write_with_an_idempotency_key_happens_once(served: Server) -> None:
    admin = A2A(served, role="super_admin")
    call = tool("tenant_create", {"name": "Once", "slug": "once-only"})

    first = admin.send(call, **{"Idempotency-Key": "once-only-1"})
    second = admin.send({"message": call["message"] | {"metadata": {"idempotencyKey": "once-only-1"}}})
    third = admin.send(call)

    assert (state(first), state(second), state(third)) == ("COMPLETED", "COMPLETED", "FAILED")
    assert first["artifacts"] == second["artifacts"]
    assert error_of(third)["code"] == "CONFLICT"


@pytest.mark.req("A2A-THR-2")
def test_a_context_that_the_client_names_is_kept(a2a: A2A) -> None:
    first = a2a.send(text("hello", contextId="my-own-context"))
    second = a2a.send(text("hello", contextId="my-own-context"))

    assert first["contextId"] == second["contextId"] == "my-own-context"
    found = a2a.call("ListTasks", {"contextId": "my-own-context"})
    assert {task["id"] for task in found["tasks"]} == {first["id"], second["id"]}


@pytest.mark.req("RAD-H5-3")
def test_a_conversation_cannot_grow_without_end(a2a: A2A) -> None:
    """Each message is far below the megabyte that all of them may have together."""
    accepted = 0
    while "result" in (answer := a2a.answer("SendMessage", text("x" * 200_000, contextId="growing"))):
        accepted += 1
        assert accepted < 6
    at_once = a2a.error("SendMessage", text("x" * 1_100_000))

    assert accepted > 1
    for one in (answer["error"], at_once):
        assert (one["code"], one["data"][0]["reason"]) == (-32602, "STATE_TOO_LARGE")
    assert a2a.call("ListTasks", {"contextId": "growing"})["totalSize"] == accepted
    assert state(a2a.send(text("x" * 200_000, contextId="another"))) == "COMPLETED"


def test_a_media_type_that_nobody_reads_is_refused(a2a: A2A) -> None:
    error = a2a.error("SendMessage", params({"raw": "AAAA", "mediaType": "application/x-unheard-of"}))

    assert (error["code"], error["data"][0]["reason"]) == (-32005, "CONTENT_TYPE_NOT_SUPPORTED")


def test_an_answer_that_nobody_writes_cannot_be_asked_for(a2a: A2A) -> None:
    wanted = text("hello", configuration={"acceptedOutputModes": ["video/mp4"]})

    assert a2a.error("SendMessage", wanted)["code"] == -32005
    assert state(a2a.send(text("hello", configuration={"acceptedOutputModes": ["video/mp4", "text/*"]}))) == "COMPLETED"


def test_fields_may_be_named_as_the_definition_of_the_protocol_has_them(a2a: A2A) -> None:
    message = {"role": "ROLE_USER", "message_id": "m", "context_id": "by-the-book", "parts": [{"text": "hello"}]}
    task = a2a.send({"message": message, "configuration": {"history_length": 0, "return_immediately": False}})

    assert (task["contextId"], "history" in task) == ("by-the-book", False)
    assert "history" not in a2a.get(task["id"], history_length=0)
    found = a2a.call("ListTasks", {"context_id": "by-the-book", "page_size": 1, "include_artifacts": True})
    assert (found["totalSize"], found["pageSize"], "artifacts" in found["tasks"][0]) == (1, 1, True)


def test_a_task_that_has_ended_leaves_nothing_for_the_collector(heavy: Server) -> None:
    # A process: what else is in one leaves things, too.
    caller, collected = A2A(heavy), 'python_gc_objects_collected_total{generation="0"}'
    before = metrics(heavy)[collected]

    # Forty objects of each would come to more than the collector waits for.
    for _ in range(500):
        caller.post({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": tool("identity_show")})

    assert metrics(heavy)[collected] - before < 1000
