import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.doors.a2a.calling import A2A, SECRETS, text

JSON = {"content-type": "application/json"}
MESSAGE = {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "hello"}]}
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


def _code(a2a: A2A, body: bytes, **headers: str) -> int:
    response = a2a.http.post("/a2a", content=body, headers=JSON | headers)
    assert response.status_code == 200, response.text
    assert not any(secret in response.text for secret in SECRETS)
    answer = response.json()
    assert set(answer) == {"jsonrpc", "id", "error"}
    return answer["error"]["code"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"{this is not json", b'{"a": NaN}', b"\xff\xfe", b'"\\ud800"', b"[" * 100_000, b"'x'"]
)
def test_what_is_not_json_is_a_parse_error(a2a: A2A, body: bytes) -> None:
    assert _code(a2a, body) == -32700


@pytest.mark.parametrize(
    "body",
    [
        [],
        [{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {}}],
        "hello",
        5,
        None,
        {},
        {"jsonrpc": "1.0", "id": 1, "method": "GetTask"},
        {"id": 1, "method": "GetTask"},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": 1, "method": 5},
        {"jsonrpc": "2.0", "id": 1, "method": ""},
        {"jsonrpc": "2.0", "id": {}, "method": "GetTask"},
        {"jsonrpc": "2.0", "id": True, "method": "GetTask"},
    ],
)
def test_what_is_no_request_is_an_invalid_request(a2a: A2A, body: Any) -> None:
    assert _code(a2a, json.dumps(body).encode()) == -32600


@pytest.mark.parametrize("method", ["DoSomething", "sendmessage", "message/send", "__init__", "x" * 10_000])
def test_an_unknown_method_is_not_found(a2a: A2A, method: str) -> None:
    assert a2a.error(method, {})["code"] == -32601


@pytest.mark.parametrize("media_type", ["text/plain", "application/xml", "", "multipart/form-data; boundary=x"])
def test_the_media_type_is_checked_before_the_body(a2a: A2A, media_type: str) -> None:
    assert _code(a2a, b"{not json", **{"content-type": media_type}) == -32005


def test_the_media_type_may_have_parameters(a2a: A2A) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": MESSAGE}}
    response = a2a.http.post(
        "/a2a", content=json.dumps(body), headers={"content-type": "Application/JSON; charset=utf-8"}
    )

    assert "result" in response.json()


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({}, {"message"}),
        ({"message": None}, {"message"}),
        ({"message": "hello"}, {"message"}),
        ({"message": {}}, {"message.parts", "message.role"}),
        ({"message": MESSAGE | {"parts": []}}, {"message.parts"}),
        ({"message": MESSAGE | {"parts": "hello"}}, {"message.parts"}),
        ({"message": MESSAGE | {"parts": [{"text": "x"}] * 1001}}, {"message.parts"}),
        ({"message": MESSAGE | {"parts": [{}]}}, {"message.parts[0]"}),
        ({"message": MESSAGE | {"parts": [None]}}, {"message.parts[0]"}),
        ({"message": MESSAGE | {"parts": [{"text": "a", "data": 1}]}}, {"message.parts[0]"}),
        ({"message": MESSAGE | {"parts": [{"text": 5}]}}, {"message.parts[0].text"}),
        ({"message": MESSAGE | {"parts": [{"raw": "!!"}]}}, {"message.parts[0].raw"}),
        ({"message": MESSAGE | {"parts": [{"url": {}}]}}, {"message.parts[0].url"}),
        ({"message": MESSAGE | {"parts": [{"kind": "text"}, {"raw": "AA==", "filename": 1}]}},
         {"message.parts[0]", "message.parts[1].filename"}),
        ({"message": MESSAGE | {"role": "ROLE_AGENT"}}, {"message.role"}),
        ({"message": MESSAGE | {"role": "user"}}, {"message.role"}),
        ({"message": MESSAGE | {"messageId": 7}}, {"message.messageId"}),
        ({"message": MESSAGE | {"messageId": "x" * 300}}, {"message.messageId"}),
        ({"message": MESSAGE | {"contextId": ["c"], "taskId": {}}}, {"message.contextId", "message.taskId"}),
        ({"message": MESSAGE | {"metadata": "m"}}, {"message.metadata"}),
        ({"message": MESSAGE, "configuration": []}, {"configuration"}),
        ({"message": MESSAGE, "configuration": {"historyLength": -1, "returnImmediately": "yes"}},
         {"configuration.historyLength", "configuration.returnImmediately"}),
        ({"message": MESSAGE, "configuration": {"acceptedOutputModes": "text/plain"}},
         {"configuration.acceptedOutputModes"}),
        ([], {"params"}),
        ("hello", {"params"}),
    ],
)  # fmt: skip
def test_a_message_of_the_wrong_shape_is_refused_with_every_field(a2a: A2A, given: Any, fields: set[str]) -> None:
    for method in ("SendMessage", "SendStreamingMessage"):
        error = a2a.error(method, given)

        assert error["code"] == -32602
        [violations] = [one["fieldViolations"] for one in error["data"] if "fieldViolations" in one]
        assert {one["field"] for one in violations} == fields


@pytest.mark.parametrize(
    "part",
    [{"text": "a\x00b"}, {"data": {"k": "\x00"}}, {"data": {"\x00": 1}}, {"data": 2**60}, {"data": [0] * 100_001}],
)
def test_what_cannot_be_kept_is_refused(a2a: A2A, part: Any) -> None:
    assert a2a.error("SendMessage", {"message": MESSAGE | {"parts": [part]}})["code"] == -32602


@pytest.mark.parametrize("data", [None, False, 0, "", [], {}, 1e300, {"a": {"b": [1, None, "é\U0001f600\ufffe"]}}])
def test_any_json_is_data(a2a: A2A, data: Any) -> None:
    task = a2a.call("SendMessage", {"message": MESSAGE | {"parts": [{"data": data}, {"text": "\ud7ff \u200b"}]}})[
        "task"
    ]

    assert a2a.get(task["id"])["history"][0]["parts"] == [{"data": data}, {"text": "\ud7ff \u200b"}]


def test_fields_that_nobody_knows_are_passed_over(a2a: A2A) -> None:
    call = text("hello", y={"z": 1}) | {"x_custom": 1}

    assert "task" in a2a.call("SendMessage", call)


@pytest.mark.parametrize("method", ["SendMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(params=ANY_JSON)
def test_no_params_break_it(a2a: A2A, method: str, params: Any) -> None:
    response = a2a.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})

    assert response.status_code == 200
    assert response.json().get("error", {}).get("code") not in (-32603, -32700)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(part=ANY_JSON, fields=st.dictionaries(st.sampled_from(["messageId", "contextId", "taskId", "metadata",
                                                              "extensions", "role"]), ANY_JSON))  # fmt: skip
def test_no_message_breaks_it(a2a: A2A, part: Any, fields: dict[str, Any]) -> None:
    message = MESSAGE | {"parts": [part]} | fields
    response = a2a.post({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}})

    assert response.status_code == 200
    assert response.json().get("error", {}).get("code") not in (-32603, -32700)


@pytest.mark.parametrize("verb", ["GET", "PUT", "DELETE", "PATCH"])
def test_another_verb_is_not_possible(a2a: A2A, verb: str) -> None:
    response = a2a.http.request(verb, "/a2a")

    assert (response.status_code, response.headers["allow"]) == (405, "POST")


def test_a_body_over_the_cap_is_refused(a2a: A2A) -> None:
    response = a2a.http.post("/a2a", content=b" " * 10_485_761, headers=JSON)

    assert response.status_code == 413
