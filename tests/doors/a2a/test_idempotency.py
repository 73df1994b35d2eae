"""A message that is sent again under its key becomes no second task, whatever happened in between."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.backstage import sql
from tests.doors.a2a.calling import A2A, CONFORMANCE, busy, error_of, state, text, tool
from tests.harness import Process, Server, data_dir

AT_ONCE = {"returnImmediately": True}
EXTENSION = "urn:dragoman:a2a:idempotency:1"


def new_key() -> str:
    return f"key-{uuid4().hex}"


def keyed(said: dict[str, Any], key: str) -> dict[str, Any]:
    """The same message under a key in its metadata."""
    return {**said, "message": {**said["message"], "metadata": {"idempotencyKey": key}}}


def tasks_of(server: Server, context: str) -> int:
    return sql(server, "SELECT count(*) AS n FROM tasks WHERE context_id = $1", context)[0]["n"]


def test_a_repeated_message_is_answered_with_the_same_task_and_says_so(a2a: A2A) -> None:
    key = new_key()
    first = a2a.send(text("hello"), **{"Idempotency-Key": key})

    # A client that repeats may well make a new message id.
    body = {"jsonrpc": "2.0", "id": "r-1", "method": "SendMessage", "params": text("hello")}
    response = a2a.post(body, **{"Idempotency-Key": key})

    again = response.json()["result"]["task"]
    assert response.headers["idempotency-replayed"] == "true"
    assert again == {**first, "metadata": {**first.get("metadata", {}), "replayed": True}}


@pytest.mark.parametrize("name", ["idempotencyKey", "idempotency_key", "idempotency-key"])
def test_the_key_may_stand_in_the_metadata(a2a: A2A, name: str) -> None:
    key = new_key()

    first, second = (a2a.send(text("hello", metadata={name: key})) for _ in range(2))

    assert (second["id"], second["metadata"]["replayed"]) == (first["id"], True)


def test_the_key_may_stand_beside_the_name_of_a_tool(a2a: A2A) -> None:
    said = {"data": {"tool": "identity_show", "arguments": {}, "idempotency_key": new_key()}}

    first, second = (
        a2a.send({"message": {"role": "ROLE_USER", "messageId": uuid4().hex, "parts": [said]}}) for _ in range(2)
    )

    assert second["id"] == first["id"]


def test_keys_that_disagree_or_are_no_keys_are_refused(a2a: A2A) -> None:
    wrong = [
        a2a.error("SendMessage", text("hello", metadata={"idempotencyKey": "one"}), **{"Idempotency-Key": "two"}),
        a2a.error("SendMessage", text("hello", metadata={"idempotencyKey": 7})),
        a2a.error("SendMessage", text("hello", metadata={"idempotencyKey": ""})),
        a2a.error("SendMessage", text("hello", metadata={"idempotencyKey": "k" * 201})),
    ]

    assert {error["code"] for error in wrong} == {-32602}


def test_another_message_under_the_same_key_is_a_conflict_that_names_the_first_task(a2a: A2A) -> None:
    key = new_key()
    first = a2a.send(keyed(text("hello"), key))

    error = a2a.error("SendMessage", keyed(text("goodbye"), key))

    metadata = error["data"][0]["metadata"]
    assert (error["data"][0]["reason"], metadata["task_id"]) == ("IDEMPOTENCY_CONFLICT", first["id"])


def test_a_key_is_its_senders_alone(served: Server, a2a: A2A, rival: A2A) -> None:
    key = new_key()
    mine = a2a.send(keyed(text("hello"), key))

    theirs = [rival.send(keyed(text("goodbye"), key)), A2A(served, user="another").send(keyed(text("goodbye"), key))]

    assert all(task["id"] != mine["id"] and "replayed" not in task.get("metadata", {}) for task in theirs)


def test_many_who_send_at_once_under_one_key_get_one_task(served: Server) -> None:
    key, context = new_key(), uuid4().hex
    callers = [A2A(served) for _ in range(8)]

    with ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(lambda caller: caller.send(keyed(text("hello", contextId=context), key)), callers))

    assert {(task["id"], state(task)) for task in sent} == {(sent[0]["id"], "COMPLETED")}
    assert sum("replayed" not in task.get("metadata", {}) for task in sent) == 1
    assert tasks_of(served, context) == 1


def test_a_repeated_answer_is_heard_once(a2a: A2A) -> None:
    task = a2a.send(text("tck-multi-turn"))
    key = new_key()

    first, second = (a2a.send(keyed(text("more", taskId=task["id"]), key)) for _ in range(2))

    assert (first["id"], second["id"]) == (task["id"], task["id"])
    said = [message["parts"] for message in second["history"] if message["role"] == "ROLE_USER"]
    assert said == [[{"text": "tck-multi-turn"}], [{"text": "more"}]]


def test_a_refused_message_consumes_no_key(a2a: A2A) -> None:
    key = new_key()
    refused = a2a.send(keyed(tool("identity_show", {"unknown": 1}), key))

    accepted = a2a.send(keyed(tool("identity_show"), key))

    assert error_of(refused)["code"] == "INVALID_PARAMS"
    assert (state(accepted), accepted["id"] != refused["id"]) == ("COMPLETED", True)


def test_a_repeated_stream_follows_the_first_task(a2a: A2A, tmp_path: Path) -> None:
    key, gate = new_key(), tmp_path / "go"
    first = a2a.send(keyed(busy(gate, configuration=AT_ONCE), key))

    with a2a.stream("SendStreamingMessage", keyed(busy(gate), key)) as stream:
        _, begun = next(stream)
        gate.touch()
        *_, (_, last) = stream

    assert begun["task"]["id"] == first["id"]
    assert state(last["statusUpdate"]) == "COMPLETED"


def test_a_key_is_known_after_a_crash_and_its_task_is_finished() -> None:
    home, key = data_dir(), new_key()
    said = text("tck-long-running seconds=0.5", configuration=AT_ONCE)
    first = Process(CONFORMANCE, at=home).start()
    task = A2A(first).send(keyed(said, key))
    first.stop(signal.SIGKILL)

    with Process(CONFORMANCE, at=home) as second:
        again = A2A(second).send(keyed(text("tck-long-running seconds=0.5"), key))

    assert (again["id"], state(again)) == (task["id"], "COMPLETED")


def test_a_repeated_message_on_the_plain_paths_is_the_same_task(a2a: A2A) -> None:
    body = {"id": uuid4().hex, "message": {"role": "user", "parts": [{"type": "text", "text": "hello"}]}}
    headers = {"Idempotency-Key": new_key()}

    first, second = (a2a.http.post("/tasks/send", json=body, headers=headers) for _ in range(2))

    assert first.json()["id"] == second.json()["id"] == body["id"]
    assert (second.headers["idempotency-replayed"], second.json()["metadata"]["replayed"]) == ("true", True)


def test_the_extension_is_declared_and_named_in_the_answer_and_what_it_promises_is_kept(a2a: A2A) -> None:
    card = a2a.http.get("/.well-known/agent-card.json").json()
    declared = next(one for one in card["capabilities"]["extensions"] if one["uri"] == EXTENSION)
    active, key = {"A2A-Extensions": EXTENSION}, new_key()
    said = keyed(text("hello"), key)

    first = a2a.send(said, **active)
    response = a2a.post({"jsonrpc": "2.0", "id": "r-1", "method": "SendMessage", "params": said}, **active)
    other = a2a.error("SendMessage", keyed(text("goodbye"), key), **active)

    assert declared["required"] is False
    assert response.headers["a2a-extensions"] == EXTENSION
    again = response.json()["result"]["task"]
    assert (again["id"], again["metadata"]["replayed"]) == (first["id"], True)
    assert other["data"][0]["reason"] == declared["params"]["conflict"]
    assert other["data"][0]["metadata"]["task_id"] == first["id"]
