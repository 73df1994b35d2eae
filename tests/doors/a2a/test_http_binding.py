from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from tests.doors.a2a.calling import A2A, ERROR_INFO, SECRETS, busy, sse, state, text, tool, unnumbered
from tests.doors.a2a.schema import check

BASE = "/a2a/rest"
A2A_JSON = "application/a2a+json"
NOBODY = "00000000-0000-0000-0000-000000000000"


def _done(response: httpx.Response, name: str) -> Any:
    assert response.status_code == 200, response.text
    check(name, response.json())
    return response.json()


def _failed(response: httpx.Response, status: int, reason: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["code"] == status
    assert (error["details"][0]["@type"], error["details"][0]["reason"]) == (ERROR_INFO, reason)
    assert not any(secret in response.text for secret in SECRETS)
    return error


def test_both_bindings_show_the_same_task(a2a: A2A) -> None:
    task = _done(a2a.http.post(f"{BASE}/message:send", json=tool("identity_show")), "SendMessageResponse")["task"]

    assert state(task) == "COMPLETED"
    assert _done(a2a.http.get(f"{BASE}/tasks/{task['id']}"), "Task") == task == a2a.get(task["id"])


def test_a_stream_of_events(a2a: A2A) -> None:
    with a2a.http.stream("POST", f"{BASE}/message:stream", json=text("tck-stream-chunked count=3")) as response:
        assert response.headers["content-type"] == "text/event-stream"
        events = list(sse(response))

    for _, event in events:
        check("StreamResponse", event)
    assert "task" in events[0][1]
    assert len([event for _, event in events if "artifactUpdate" in event]) == 3
    assert state(events[-1][1]["statusUpdate"]) == "COMPLETED"


@pytest.mark.parametrize("verb", ["GET", "POST"])
def test_a_task_is_followed_by_either_verb(a2a: A2A, verb: str, tmp_path: Path) -> None:
    task = a2a.send(busy(tmp_path / "go", configuration={"returnImmediately": True}))

    with a2a.http.stream(verb, f"{BASE}/tasks/{task['id']}:subscribe") as response:
        events = sse(response)
        _, first = next(events)
        (tmp_path / "go").touch()
        *_, (_, last) = events

    assert first["task"]["id"] == task["id"]
    assert state(last["statusUpdate"]) == "COMPLETED"


def test_a_task_is_cancelled(a2a: A2A) -> None:
    task = a2a.send(text("tck-cancel", configuration={"returnImmediately": True}))

    assert state(_done(a2a.http.post(f"{BASE}/tasks/{task['id']}:cancel"), "Task")) == "CANCELED"
    _failed(a2a.http.post(f"{BASE}/tasks/{task['id']}:cancel", json={}), 400, "TASK_NOT_CANCELABLE")


def test_tasks_are_listed_by_query(a2a: A2A) -> None:
    task = a2a.send(text("hello", contextId="by-query"))
    query = {"contextId": "by-query", "pageSize": "1", "historyLength": "0", "includeArtifacts": "true",
             "status": "TASK_STATE_COMPLETED", "A2A-Version": "1.0"}  # fmt: skip

    page = _done(a2a.http.get(f"{BASE}/tasks", params=query), "ListTasksResponse")

    assert [one["id"] for one in page["tasks"]] == [task["id"]]
    assert "artifacts" in page["tasks"][0]
    assert "history" not in page["tasks"][0]
    assert (page["pageSize"], page["totalSize"], page["nextPageToken"]) == (1, 1, "")


def test_the_extended_card(a2a: A2A) -> None:
    assert _done(a2a.http.get(f"{BASE}/extendedAgentCard"), "AgentCard")["name"] == "Conformance"


@pytest.mark.parametrize(
    ("verb", "path", "status", "reason"),
    [
        ("GET", f"tasks/{NOBODY}", 404, "TASK_NOT_FOUND"),
        ("GET", "tasks/nobody", 404, "TASK_NOT_FOUND"),
        ("GET", "tasks/a%2Fb", 404, "TASK_NOT_FOUND"),
        ("POST", f"tasks/{NOBODY}:cancel", 404, "TASK_NOT_FOUND"),
        ("GET", f"tasks/{NOBODY}:subscribe", 404, "TASK_NOT_FOUND"),
        ("GET", "tasks?pageSize=0", 400, "INVALID_PARAMS"),
        ("GET", "nowhere", 404, "NOT_FOUND"),
        ("GET", "tasks/", 404, "NOT_FOUND"),
        ("GET", "", 404, "NOT_FOUND"),
        ("GET", "message:send", 405, "METHOD_NOT_ALLOWED"),
        ("DELETE", "tasks", 405, "METHOD_NOT_ALLOWED"),
        ("POST", f"tasks/{NOBODY}/pushNotificationConfigs", 400, "INVALID_PARAMS"),
        ("GET", f"tasks/{NOBODY}/pushNotificationConfigs", 404, "TASK_NOT_FOUND"),
        ("GET", f"tasks/{NOBODY}/pushNotificationConfigs/c", 404, "TASK_NOT_FOUND"),
        ("DELETE", f"tasks/{NOBODY}/pushNotificationConfigs/c", 404, "TASK_NOT_FOUND"),
        ("POST", "message:send", 400, "INVALID_PARAMS"),
    ],
)
def test_what_cannot_be_done(a2a: A2A, verb: str, path: str, status: int, reason: str) -> None:
    _failed(a2a.http.request(verb, f"{BASE}/{path}"), status, reason)


def test_another_tenants_task_looks_like_none(a2a: A2A, rival: A2A) -> None:
    task = a2a.send(text("tck-input-required"))

    def seen(verb: str, path: str) -> set[str]:
        answers = [rival.http.request(verb, f"{BASE}/tasks/{ref}{path}") for ref in (task["id"], NOBODY)]
        return {
            f"{answer.status_code} {unnumbered(answer.json()).replace(ref, '<id>')}"
            for answer, ref in zip(answers, (task["id"], NOBODY), strict=True)
        }

    for verb, path in (("GET", ""), ("POST", ":cancel"), ("GET", ":subscribe"), ("POST", ":subscribe")):
        [same] = seen(verb, path)
        assert same.startswith("404")
    _failed(rival.http.post(f"{BASE}/message:send", json=text("x", taskId=task["id"])), 404, "TASK_NOT_FOUND")


@pytest.mark.parametrize("media_type", ["application/json", A2A_JSON])
def test_the_answer_is_of_the_requests_own_media_type(a2a: A2A, media_type: str) -> None:
    headers = {"content-type": media_type}
    good = a2a.http.post(f"{BASE}/message:send", content=orjson.dumps(text("hello")), headers=headers)
    bad = a2a.http.post(f"{BASE}/message:send", content=b"{", headers=headers)
    plain = a2a.http.get(f"{BASE}/tasks", headers={"accept": media_type})

    assert {one.headers["content-type"] for one in (good, bad, plain)} == {media_type}
    _failed(bad, 400, "PARSE_ERROR")


def test_the_media_type_is_checked_before_the_body(a2a: A2A) -> None:
    headers = {"content-type": "text/plain"}

    _failed(a2a.http.post(f"{BASE}/message:send", content=b"{", headers=headers), 400, "CONTENT_TYPE_NOT_SUPPORTED")


def test_a_version_that_is_not_served_is_refused(a2a: A2A) -> None:
    by_header = a2a.http.get(f"{BASE}/tasks", headers={"A2A-Version": "9.9"})
    by_query = a2a.http.get(f"{BASE}/tasks?A2A-Version=9.9")

    for answer in (by_header, by_query):
        _failed(answer, 400, "VERSION_NOT_SUPPORTED")
