import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.doors.a2a.calling import A2A, CONFORMANCE, SECRETS, brief, sse
from tests.doors.a2a.older_schema import MISSING, check, found
from tests.doors.rest.calling import fresh, new_tenant, problem
from tests.harness import InProcess, Server
from tests.minutes import in_one_minute
from tests.tenants import beside

JSON = {"content-type": "application/json"}
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def strict() -> Iterator[Server]:
    """Few messages a minute and tenant."""
    with InProcess(CONFORMANCE | {"DRAGOMAN_LIMITS__A2A_TENANT_PER_MIN": "5"}) as running:
        yield running


def said(*parts: Any, **fields: Any) -> dict[str, Any]:
    return {"message": {"role": "user", "parts": list(parts)}, **fields}


def text(words: str, **fields: Any) -> dict[str, Any]:
    return said({"type": "text", "text": words}, **fields)


def tool(name: str, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    return said({"type": "data", "data": {"tool": name, "arguments": arguments or {}}}, **fields)


def task_of(response: httpx.Response) -> dict[str, Any]:
    """The task, once it is found to be one of 0.1."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    task: dict[str, Any] = response.json()
    check("0.1", "Task", task)
    assert {"id", "sessionId", "status", "artifacts", "metadata"} <= set(task)
    return task


def send(caller: A2A, body: Any, path: str = "/tasks/send") -> dict[str, Any]:
    return task_of(caller.http.post(path, json=body))


def get(caller: A2A, ref: str, **query: Any) -> dict[str, Any]:
    return task_of(caller.http.get(f"/tasks/{ref}/get", params=query))


def stream(caller: A2A, body: Any, **headers: str) -> list[tuple[int, dict[str, Any]]]:
    with caller.http.stream("POST", "/tasks/sendSubscribe", json=body, headers=headers) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"] == "text/event-stream"
        return list(sse(response))


def events(caller: A2A, body: Any, **headers: str) -> list[tuple[int, dict[str, Any]]]:
    """The events of the plain path, each checked."""
    seen = stream(caller, body, **headers)
    for _, event in seen:
        check("0.1", "TaskArtifactUpdateEvent" if "artifact" in event else "TaskStatusUpdateEvent", event)
    assert [event.get("final", False) for _, event in seen] == [False] * (len(seen) - 1) + [True]
    return seen


def state(shown: dict[str, Any]) -> str:
    return shown["status"]["state"]


def error_of(task: dict[str, Any]) -> dict[str, Any]:
    return next(part["data"]["error"] for part in task["status"]["message"]["parts"] if part["type"] == "data")


def words(parts: list[dict[str, Any]]) -> str:
    return "".join(part.get("text", "") for part in parts)


@pytest.mark.req("A2A-PR-1", "MKS-TEN-1")
@pytest.mark.parametrize("tag", ["type", "kind"])
def test_a_named_tool_gives_a_completed_task_with_its_output(a2a: A2A, tag: str) -> None:
    task = send(a2a, said({tag: "data", "data": {"tool": "identity_show", "arguments": {}}}))

    assert state(task) == "completed"
    [artifact] = task["artifacts"]
    assert artifact["name"] == "identity_show"
    [part] = artifact["parts"]
    assert part["type"] == "data"
    assert part["data"]["tenant"] == "demo"


@pytest.mark.req("A2A-PR-1")
def test_words_go_to_the_agent_and_files_reach_it(a2a: A2A) -> None:
    task = send(a2a, text("tck-artifact-file"))

    [part] = task["artifacts"][0]["parts"]
    assert part["type"] == "file"
    assert part["file"]["name"] == "output.txt"
    assert part["file"]["mimeType"] == "text/plain"
    again = send(
        a2a, said({"type": "text", "text": "look"}, part, {"kind": "file", "file": {"uri": "https://x.example"}})
    )
    assert [shown["type"] for shown in again["history"][0]["parts"]] == ["text", "file", "file"]
    assert again["history"][0]["parts"][1] == part


@pytest.mark.req("A2A-PR-2", "A2A-CARD-2")
def test_a_task_is_shown_with_its_history_and_the_steps_it_took(a2a: A2A) -> None:
    sent = send(a2a, text("tck-complete-task"))

    task = get(a2a, sent["id"])

    assert task == sent
    assert [message["role"] for message in task["history"]] == ["user", "agent"]
    steps = [(step["from"], step["to"]) for step in task["metadata"]["transitions"]]
    assert steps == [(None, "submitted"), ("submitted", "working"), ("working", "completed")]
    assert [message["role"] for message in get(a2a, sent["id"], historyLength=1)["history"]] == ["agent"]
    assert "history" not in get(a2a, sent["id"], historyLength=0)
    assert "history" not in send(a2a, text("hello", historyLength=0))


@pytest.mark.req("A2A-PR-2")
def test_an_unfinished_task_is_shown_with_what_it_has_so_far(a2a: A2A) -> None:
    name = fresh("draft")
    body = text("tck-draft seconds=20", id=name)
    with a2a.http.stream("POST", "/tasks/sendSubscribe", json=body) as response:
        next(event for _, event in sse(response) if "artifact" in event)
        task = get(a2a, name)
        cancelled = task_of(a2a.http.post(f"/tasks/{name}/cancel"))

    assert (state(task), words(task["artifacts"][0]["parts"])) == ("working", "A first idea.")
    assert (cancelled["id"], state(cancelled)) == (name, "canceled")
    problem(a2a.http.post(f"/tasks/{name}/cancel", json={}), 409, "CONFLICT")


def test_a_task_has_the_id_that_its_caller_chose_and_ours_too(a2a: A2A) -> None:
    name = fresh("my/task ü")

    task = send(a2a, text("hello", id=name, sessionId="s-1"))

    assert (task["id"], task["sessionId"]) == (name, "s-1")
    listed = a2a.call("ListTasks", {"contextId": "s-1", "pageSize": 1})["tasks"][0]
    assert get(a2a, listed["id"]) == task
    quoted = name.replace("/", "%2F").replace(" ", "%20")
    assert task_of(a2a.http.get(f"/tasks/{quoted}/get")) == task


def test_all_views_are_of_one_task(a2a: A2A) -> None:
    asked = send(a2a, text("tck-input-required"))

    newer = a2a.get(asked["id"])

    assert newer["contextId"] == asked["sessionId"]
    assert newer["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    a2a.call("CancelTask", {"id": asked["id"]})
    assert state(get(a2a, asked["id"])) == "canceled"


@pytest.mark.parametrize("by", ["path", "same id", "our id"])
def test_an_answer_goes_on_with_the_task_that_asked(a2a: A2A, by: str) -> None:
    name = fresh()
    asked = send(a2a, text("tck-input-required one", id=name))
    assert (state(asked), words(asked["status"]["message"]["parts"])) == ("input-required", "What else?")

    if by == "path":
        done = send(a2a, text("done"), f"/tasks/{name}/send")
    else:
        ref = name if by == "same id" else a2a.call("ListTasks", {"contextId": asked["sessionId"]})["tasks"][0]["id"]
        done = send(a2a, text("done", id=ref))

    assert (done["id"], done["sessionId"], state(done)) == (name, asked["sessionId"], "completed")
    assert done["artifacts"][0]["parts"][0]["data"] == {"first": "tck-input-required one", "last": "done"}
    states = [step["to"] for step in done["metadata"]["transitions"]]
    assert states == ["submitted", "working", "input-required", "working", "completed"]
    problem(a2a.http.post(f"/tasks/{name}/send", json=text("more")), 409, "CONFLICT")
    problem(a2a.http.post("/tasks/send", json=text("more", id=name)), 409, "CONFLICT")


def test_a_session_that_nobody_knows_begins_with_that_id(a2a: A2A) -> None:
    session = fresh("session")

    first, second = send(a2a, text("hello", sessionId=session)), send(a2a, text("hello", contextId=session))

    assert (first["sessionId"], second["sessionId"]) == (session, session)
    assert first["id"] != second["id"]
    assert send(a2a, text("hello"))["sessionId"] not in (None, session)


@pytest.mark.req("MKS-ERR-1")
def test_wrong_arguments_are_a_failed_task_with_the_reason(a2a: A2A) -> None:
    task = send(a2a, tool("tenant_get", {"tenant_id": 5, "nonsense": True}))

    assert state(task) == "failed"
    error = error_of(task)
    assert (error["code"], set(error)) == ("INVALID_PARAMS", {"code", "message", "details"})
    assert error["details"]["errors"]


@pytest.mark.req("MKS-ERR-2")
def test_a_tool_without_permission_is_a_failed_task(served: Server) -> None:
    task = send(A2A(served, role="viewer"), tool("tenant_create", {"name": "X", "slug": fresh()}))

    assert (state(task), error_of(task)["code"]) == ("failed", "UNAUTHORIZED")


def test_an_unknown_tool_is_a_failed_task(server: Server) -> None:
    task = send(A2A(server), tool("no_such_tool"))

    assert (state(task), error_of(task)["code"]) == ("failed", "NOT_FOUND")


def test_rejected_is_shown_as_failed_and_said_in_the_metadata(a2a: A2A) -> None:
    task = send(a2a, text("tck-reject-task"))

    assert (state(task), task["metadata"]["state"]) == ("failed", "rejected")
    last = events(a2a, text("tck-reject-task"))[-1][1]
    assert (state(last), last["metadata"]) == ("failed", {"state": "rejected"})
    assert "state" not in send(a2a, text("tck-task-failure"))["metadata"]


def test_a_crash_is_a_failed_task_that_gives_nothing_away(a2a: A2A) -> None:
    response = a2a.http.post("/tasks/send", json=text("tck-crash"))

    assert error_of(task_of(response))["code"] == "INTERNAL_ERROR"
    assert not any(secret in response.text.replace("tck-crash", "") for secret in SECRETS)


@pytest.mark.req("A2A-PR-3")
def test_a_stream_has_the_news_as_they_come_and_says_which_is_the_last(a2a: A2A) -> None:
    name = fresh()

    seen = events(a2a, text("tck-stream-chunked count=3", id=name))

    shown = [words(event["artifact"]["parts"]) if "artifact" in event else state(event) for _, event in seen]
    assert shown == ["submitted", "working", "chunk-1 ", "chunk-2 ", "chunk-3 ", "completed"]
    assert {event["id"] for _, event in seen} == {name}
    chunks = [event["artifact"] for _, event in seen if "artifact" in event]
    assert [(one["index"], one["append"], one["lastChunk"]) for one in chunks] == [
        (0, False, False),
        (0, True, False),
        (0, True, True),
    ]
    numbers = [number for number, _ in seen]
    assert numbers == sorted(set(numbers))


@pytest.mark.req("A2A-PR-3")
def test_a_stream_of_a_quick_task_has_its_artifacts_too(a2a: A2A) -> None:
    seen = events(a2a, tool("identity_show"))

    assert [state(event) for _, event in seen if "status" in event][-1] == "completed"
    [artifact] = [event["artifact"] for _, event in seen if "artifact" in event]
    assert artifact["parts"][0]["data"]["tenant"] == "demo"


def test_one_who_was_cut_off_gets_what_was_missed_and_says_nothing_twice(a2a: A2A) -> None:
    body = text("tck-stream-chunked count=5", id=fresh())
    seen = events(a2a, body)

    again = events(a2a, body, **{"Last-Event-ID": str(seen[3][0])})

    assert again == seen[4:]


def test_a_stream_goes_on_with_a_task_that_asked(a2a: A2A) -> None:
    name = fresh()
    asked = events(a2a, text("tck-input-required", id=name))
    assert state(asked[-1][1]) == "input-required"

    answered = events(a2a, text("done", id=name))

    assert answered[0][0] > asked[-1][0]
    assert [state(event) for _, event in answered if "status" in event] == ["working", "completed"]


def _rpc(caller: A2A, method: str, params: Any, path: str = "/tasks/send") -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": "e-1", "method": method, "params": params}
    response = caller.http.post(path, json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", "e-1")
    check("0.1", "SendTaskResponse", answer)
    return answer


def test_an_envelope_is_answered_in_an_envelope(a2a: A2A) -> None:
    name = fresh()

    sent = _rpc(a2a, "tasks/send", text("tck-input-required", id=name))["result"]
    found_again = _rpc(a2a, "tasks/get", {"id": name, "historyLength": 0}, "/tasks/sendSubscribe")["result"]
    cancelled = _rpc(a2a, "tasks/cancel", {"id": name})["result"]

    assert (sent["id"], state(sent), state(found_again)) == (name, "input-required", "input-required")
    assert "history" not in found_again
    assert state(cancelled) == "canceled"


def test_a_stream_in_an_envelope(a2a: A2A) -> None:
    name = fresh()
    call = {"jsonrpc": "2.0", "id": 5, "method": "tasks/sendSubscribe", "params": text("tck-stream-basic", id=name)}

    seen = stream(a2a, call)
    again = stream(a2a, {**call, "method": "tasks/resubscribe", "params": {"id": name}})

    for _, event in seen:
        check("0.1", "SendTaskStreamingResponse", event)
    assert seen[-1][1]["result"]["final"]
    assert again == seen


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tasks/get", {"id": "nothing"}, -32001),
        ("tasks/cancel", {"id": "nothing"}, -32001),
        ("tasks/resubscribe", {"id": "nothing"}, -32001),
        ("tasks/send", {}, -32602),
        ("tasks/send", [], -32602),
        ("tasks/sendSubscribe", {"message": 5}, -32602),
        ("tasks/get", {}, -32602),
        ("tasks/send", text("hello", pushNotification={"url": "https://x.example"}), -32003),
        ("tasks/pushNotification/set", {}, -32601),
        ("SendMessage", {}, -32601),
        (5, {}, -32600),
    ],
)
def test_what_goes_wrong_in_an_envelope_is_said_in_it(a2a: A2A, method: Any, params: Any, code: int) -> None:
    assert _rpc(a2a, method, params)["error"]["code"] == code


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "message"),
        ({"message": "hello"}, "message"),
        (text("hello", id=5), "id"),
        (text("hello", id="x" * 201), "id"),
        (text("hello", id="a\nb"), "id"),
        (text("hello", sessionId={}), "sessionId"),
        (text("hello", historyLength=-1), "historyLength"),
        (text("hello", historyLength="many"), "historyLength"),
        (text("hello", metadata=[]), "metadata"),
        ({"message": {"parts": [{"type": "text", "text": "x"}]}}, "message.role"),
        ({"message": {"role": "agent", "parts": [{"type": "text", "text": "x"}]}}, "message.role"),
        ({"message": {"role": "user"}}, "message.parts"),
        (said(), "message.parts"),
        (said(5), "message.parts[0]"),
        (said({"text": "x"}), "message.parts[0].type"),
        (said({"kind": "video"}), "message.parts[0].kind"),
        (said({"type": []}), "message.parts[0].type"),
        (said({"type": "text"}), "message.parts[0].text"),
        (said({"type": "data", "data": []}), "message.parts[0].data"),
        (said({"type": "file"}), "message.parts[0].file"),
        (said({"type": "file", "file": {"bytes": "eA==", "uri": "x"}}), "message.parts[0].file"),
        (said({"type": "file", "file": {"uri": 5}}), "message.parts[0].file"),
        (said({"type": "file", "file": {"uri": "x", "name": 5}}), "message.parts[0].file.name"),
        (said({"type": "file", "file": {"bytes": "!!"}}), "message.parts[0].file.bytes"),
        (said({"type": "text", "text": "x", "metadata": 5}), "message.parts[0].metadata"),
        ([], "body"),
        (5, "body"),
    ],
)
def test_bad_input_is_a_problem_that_names_the_field(a2a: A2A, body: Any, field: str) -> None:
    for path in ("/tasks/send", "/tasks/sendSubscribe", "/tasks/nothing/send"):
        if path == "/tasks/nothing/send" and field == "id":
            continue  # the path says which task
        refused = problem(a2a.http.post(path, json=body), 400, "INVALID_PARAMS")

        assert field in {error["field"] for error in refused["errors"]}


@pytest.mark.parametrize("body", [b"", b"{", b'{"a": NaN}', b"\xff\xfe", b"[" * 100_000])
def test_what_is_not_json_is_a_problem(a2a: A2A, body: bytes) -> None:
    refused = problem(a2a.http.post("/tasks/send", content=body, headers=JSON), 400, "INVALID_PARAMS")

    assert [error["field"] for error in refused["errors"]] == ["body"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=ANY_JSON)
def test_nothing_that_is_sent_is_our_fault(a2a: A2A, body: Any) -> None:
    for sent in (body, {"message": body}, said(body), said({"type": "data", "data": body}, id="any")):
        for path in ("/tasks/send", "/tasks/sendSubscribe", "/tasks/any/send"):
            response = a2a.http.post(path, content=json.dumps(sent), headers=JSON)
            assert response.status_code < 500, response.text


def test_types_methods_and_paths_that_are_not_served(a2a: A2A) -> None:
    problem(a2a.http.post("/tasks/send", content=b"hello", headers={"content-type": "text/plain"}), 415,
            "UNSUPPORTED_MEDIA_TYPE")  # fmt: skip
    pdf = said({"type": "file", "file": {"uri": "https://x.example", "mimeType": "application/pdf"}})
    problem(a2a.http.post("/tasks/send", json=pdf), 415, "CONTENT_TYPE_NOT_SUPPORTED")
    problem(a2a.http.get("/tasks/send"), 405, "METHOD_NOT_ALLOWED")
    problem(a2a.http.post("/tasks/x/get", json={}), 405, "METHOD_NOT_ALLOWED")
    problem(a2a.http.get("/tasks/x/nothing"), 404, "NOT_FOUND")
    problem(a2a.http.post("/tasks/send", json=text("x"), headers={"A2A-Version": "99.0"}), 400, "VERSION_NOT_SUPPORTED")
    large = text("x" * 11_000_000)
    problem(a2a.http.post("/tasks/send", json=large), 413, "PAYLOAD_TOO_LARGE")


@pytest.mark.req("MKS-TEN-2")
def test_another_tenants_task_looks_like_a_missing_one(a2a: A2A, rival: A2A) -> None:
    name = fresh()
    asked = send(a2a, text("tck-input-required", id=name))
    our_id = a2a.call("ListTasks", {"contextId": asked["sessionId"]})["tasks"][0]["id"]

    for ref in (name, our_id, "nothing", "00000000-0000-0000-0000-000000000000"):
        answers = [
            rival.http.get(f"/tasks/{ref}/get"),
            rival.http.post(f"/tasks/{ref}/send", json=text("done")),
            rival.http.post(f"/tasks/{ref}/cancel", json={}),
        ]
        for answer in answers:
            assert problem(answer, 404, "NOT_FOUND")["detail"] == f"task {ref!r} not found"
    assert state(get(a2a, name)) == "input-required"


@pytest.mark.req("MKS-TEN-1", "MKS-TEN-2")
def test_the_same_id_in_another_tenant_is_another_task(a2a: A2A, rival: A2A) -> None:
    name = fresh()

    mine = send(a2a, text("tck-input-required", id=name, sessionId=name))
    theirs = send(rival, text("hello", id=name, sessionId=name))

    assert (state(mine), state(theirs)) == ("input-required", "completed")
    assert len(theirs["history"]) == 2


def test_calls_that_begin_the_same_task_at_once_do_its_work_once(served: Server) -> None:
    name, slug = fresh(), fresh()
    caller = A2A(served, role="super_admin")

    with ThreadPoolExecutor(8) as pool:
        body = tool("tenant_create", {"name": "Once", "slug": slug}, id=name)
        answers = list(pool.map(lambda _: caller.http.post("/tasks/send", json=body), range(8)))

    assert {answer.status_code for answer in answers} <= {200, 409}
    [done] = [answer for answer in answers if answer.status_code == 200]
    assert state(task_of(done)) == "completed"


@pytest.mark.parametrize("token", [None, "nonsense"])
def test_nobody_gets_in_without_credentials(served: Server, token: str | None) -> None:
    with served.client(token) as stranger:
        answers = [
            stranger.post("/tasks/send", json=text("hello")),
            stranger.post("/tasks/sendSubscribe", json=text("hello")),
            stranger.get("/tasks/x/get"),
            stranger.post("/tasks/x/send", json=text("hello")),
            stranger.post("/tasks/x/cancel"),
        ]

    for answer in answers:
        problem(answer, 401, "UNAUTHENTICATED")


@in_one_minute
def test_over_the_limit_is_said_with_the_time_to_come_back(strict: Server) -> None:
    caller = A2A(strict, tenant=new_tenant(strict, plan="standard")["slug"])
    for _ in range(5):
        send(caller, text("hello"))

    envelope = {"jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": text("hello")}
    for path, body in (
        ("/tasks/send", text("hello")),
        ("/tasks/sendSubscribe", text("hello")),
        ("/tasks/send", envelope),
    ):
        over = caller.http.post(path, json=body)

        problem(over, 429, "RATE_LIMITED")
        assert int(over.headers["retry-after"]) > 0


def test_one_who_waited_long_enough_is_told_that_it_works(served: Server) -> None:
    with brief(CONFORMANCE | beside(served)) as short:
        caller = A2A(short, keys_of=served)

        task = send(caller, text("tck-cancel"))

        assert (state(task), task["artifacts"]) == ("working", [])
        assert state(task_of(caller.http.post(f"/tasks/{task['id']}/cancel"))) == "canceled"


@pytest.mark.skipif(not found("0.1"), reason=MISSING)
def test_the_official_schema_is_looked_at(a2a: A2A) -> None:
    task = send(a2a, text("hello"))

    with pytest.raises(AssertionError):
        check("0.1", "Task", task | {"status": {"state": "rejected"}})
