from typing import Any
from uuid import uuid4

import pytest

from tests.doors.a2a.calling import A2A, SECRETS, sse
from tests.doors.a2a.older_schema import MISSING, check, found
from tests.harness import Server

RESPONSES = {
    "message/send": "SendMessageSuccessResponse",
    "tasks/get": "GetTaskSuccessResponse",
    "tasks/cancel": "CancelTaskSuccessResponse",
    "agent/getAuthenticatedExtendedCard": "GetAuthenticatedExtendedCardSuccessResponse",
}


def said(*parts: Any, configuration: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    message = {"kind": "message", "role": "user", "messageId": uuid4().hex, "parts": list(parts), **fields}
    return {"message": message} | ({"configuration": configuration} if configuration else {})


def text(words: str, **fields: Any) -> dict[str, Any]:
    return said({"kind": "text", "text": words}, **fields)


def answer(caller: A2A, method: str, params: Any, **headers: str) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": "r-1", "method": method, "params": params}
    response = caller.http.post("/a2a", json=body, headers=headers)
    assert response.status_code == 200, response.text
    # A card shows examples, and those may name files.
    assert "Card" in method or not any(secret in response.text for secret in SECRETS)
    return response.json()


def call(caller: A2A, method: str, params: Any, **headers: str) -> dict[str, Any]:
    body = answer(caller, method, params, **headers)
    check("0.3", RESPONSES[method], body)
    return body["result"]


def stream(caller: A2A, method: str, params: Any, **headers: str) -> list[tuple[int, dict[str, Any]]]:
    body = {"jsonrpc": "2.0", "id": "s-1", "method": method, "params": params}
    with caller.http.stream("POST", "/a2a", json=body, headers=headers) as response:
        assert response.headers["content-type"] == "text/event-stream", response.read()
        seen = list(sse(response))
    for _, event in seen:
        check("0.3", "SendStreamingMessageSuccessResponse", event)
    return [(number, event["result"]) for number, event in seen]


def state(shown: dict[str, Any]) -> str:
    return shown["status"]["state"]


@pytest.mark.parametrize("headers", [{}, {"A2A-Version": "0.3"}, {"A2A-Version": "0.3.0"}])
def test_a_message_becomes_a_task(a2a: A2A, headers: dict[str, str]) -> None:
    task = call(a2a, "message/send", text("hello"), **headers)

    assert (task["kind"], state(task)) == ("task", "completed")
    assert [(one["kind"], one["role"]) for one in task["history"]] == [("message", "user"), ("message", "agent")]
    assert task["artifacts"][0]["parts"] == [{"kind": "text", "text": "Hello from TCK"}]
    assert call(a2a, "tasks/get", {"id": task["id"]}, **headers) == task
    assert "history" not in call(a2a, "tasks/get", {"id": task["id"], "historyLength": 0}, **headers)


def test_the_answer_says_its_version(a2a: A2A) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": text("hello")}

    assert a2a.http.post("/a2a", json=body).headers["a2a-version"] == "0.3"


def test_every_kind_of_part_comes_back_as_it_was_sent(a2a: A2A) -> None:
    parts = [
        {"kind": "text", "text": "look"},
        {"kind": "data", "data": {"a": [1]}},
        {"kind": "file", "file": {"bytes": "eA==", "name": "x.txt", "mimeType": "text/plain"}},
        {"kind": "file", "file": {"uri": "https://x.example/y", "mimeType": "text/plain"}},
    ]

    assert call(a2a, "message/send", said(*parts))["history"][0]["parts"] == parts


@pytest.mark.parametrize(
    ("words", "shown"), [("tck-reject-task", "rejected"), ("tck-task-failure", "failed"), ("tck-crash", "failed")]
)
def test_states_are_written_small(a2a: A2A, words: str, shown: str) -> None:
    task = call(a2a, "message/send", text(words))

    assert state(task) == shown
    assert task["status"]["message"]["parts"][-1]["data"]["error"]["code"]


def test_a_task_that_asks_is_answered_and_another_is_cancelled(a2a: A2A) -> None:
    asked, other = (call(a2a, "message/send", text("tck-input-required")) for _ in range(2))
    assert state(asked) == "input-required"

    done = call(a2a, "message/send", text("done", taskId=asked["id"], contextId=asked["contextId"]))
    cancelled = call(a2a, "tasks/cancel", {"id": other["id"]})

    assert (done["id"], state(done), state(cancelled)) == (asked["id"], "completed", "canceled")
    assert answer(a2a, "tasks/cancel", {"id": other["id"]})["error"]["code"] == -32002
    assert a2a.get(other["id"])["status"]["state"] == "TASK_STATE_CANCELED"


def test_one_who_does_not_block_gets_the_task_at_once(a2a: A2A) -> None:
    task = call(a2a, "message/send", text("tck-cancel", configuration={"blocking": False}))

    assert state(task) in ("submitted", "working")
    call(a2a, "tasks/cancel", {"id": task["id"]})


def test_a_stream_is_the_task_its_news_and_a_final_status(a2a: A2A) -> None:
    seen = [event for _, event in stream(a2a, "message/stream", text("tck-stream-basic hello"))]

    assert [event["kind"] for event in seen] == ["task", "status-update", "artifact-update", "status-update"]
    assert [event["final"] for event in seen if "final" in event] == [False, True]
    assert state(seen[-1]) == "completed"


def test_a_question_that_was_answered_is_not_final_when_it_is_shown_again(a2a: A2A) -> None:
    asked = call(a2a, "message/send", text("tck-input-required"))
    call(a2a, "message/send", text("done", taskId=asked["id"]))

    seen = stream(a2a, "tasks/resubscribe", {"id": asked["id"]}, **{"Last-Event-ID": "1"})

    finals = [(state(event), event["final"]) for _, event in seen if event["kind"] == "status-update"]
    assert finals == [("working", False), ("input-required", False), ("working", False), ("completed", True)]


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("message/send", {}, -32602),
        ("message/send", [], -32602),
        ("message/send", {"message": {"role": "user"}}, -32602),
        ("message/send", text("x", role="ROLE_USER"), -32602),
        ("message/send", text("x", messageId=""), -32602),
        ("message/send", said({"kind": "video"}), -32602),
        ("message/send", said({"text": "no kind"}), -32602),
        ("message/send", text("x", configuration={"blocking": "maybe"}), -32602),
        ("message/stream", {"message": 5}, -32602),
        ("tasks/get", {}, -32602),
        ("tasks/get", {"id": "nothing", "historyLength": -1}, -32602),
        ("tasks/get", {"id": "nothing"}, -32001),
        ("tasks/cancel", {"id": "nothing"}, -32001),
        ("tasks/resubscribe", {"id": "nothing"}, -32001),
        ("message/send", text("x", taskId="nothing"), -32001),
        ("message/send", text("x", configuration={"pushNotificationConfig": {"url": "https://10.0.0.1"}}), -32602),
        ("tasks/pushNotificationConfig/set", {}, -32602),
        ("tasks/pushNotificationConfig/list", {"id": "x"}, -32001),
        ("message/nothing", {}, -32601),
    ],
)
def test_what_goes_wrong_has_the_code_of_the_protocol(a2a: A2A, method: str, params: Any, code: int) -> None:
    assert answer(a2a, method, params)["error"]["code"] == code


def test_each_version_has_its_own_names(a2a: A2A) -> None:
    assert answer(a2a, "SendMessage", text("x"), **{"A2A-Version": "0.3"})["error"]["code"] == -32601
    assert answer(a2a, "message/send", text("x"), **{"A2A-Version": "1.0"})["error"]["code"] == -32601
    assert answer(a2a, "message/send", text("x"), **{"A2A-Version": "0.4"})["error"]["code"] == -32009


@pytest.mark.req("MKS-TEN-2")
def test_another_tenants_task_looks_like_a_missing_one(a2a: A2A, rival: A2A) -> None:
    task = call(a2a, "message/send", text("tck-input-required"))

    for method, params in (
        ("tasks/get", {"id": task["id"]}),
        ("tasks/cancel", {"id": task["id"]}),
        ("message/send", text("done", taskId=task["id"])),
    ):
        assert answer(rival, method, params)["error"]["code"] == -32001
    assert state(call(a2a, "tasks/get", {"id": task["id"]})) == "input-required"


@pytest.mark.skipif(not found("0.3"), reason=MISSING)
def test_the_extended_card_is_as_the_official_schema_has_it(served: Server) -> None:
    card = call(A2A(served, role="viewer"), "agent/getAuthenticatedExtendedCard", {})

    assert (card["protocolVersion"], card["url"]) == ("0.3.0", f"{served.url}/a2a")
    assert card["securitySchemes"]["apiKey"] == {"type": "apiKey", "in": "header", "name": "X-API-Key"}
    assert card["security"] == [{"bearer": []}, {"apiKey": []}]
    with pytest.raises(AssertionError):
        check("0.3", "AgentCard", card | {"capabilities": None})


@pytest.mark.parametrize(("query", "headers"), [("", {"A2A-Version": "0.3.0"}), ("?A2A-Version=0.3", {})])
def test_the_public_card_is_shown_as_0_3_has_it_to_one_who_names_that_version(
    served: Server, query: str, headers: dict[str, str]
) -> None:
    with served.client() as nobody:
        response = nobody.get(f"/.well-known/agent-card.json{query}", headers=headers)
        newer = nobody.get("/.well-known/agent-card.json", headers={"A2A-Version": "99.0"})

    card = response.json()
    assert (card["protocolVersion"], card["url"], card["preferredTransport"]) == (
        "0.3.0",
        f"{served.url}/a2a",
        "JSONRPC",
    )
    assert "a2a-version" in response.headers["vary"]
    check("0.3", "AgentCard", card)
    assert "supportedInterfaces" in newer.json()
