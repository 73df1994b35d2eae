from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.doors.a2a.calling import A2A, SECRETS, error_of, params, state, text, tool, unnumbered
from tests.doors.rest.calling import new_tenant
from tests.harness import Server

NOBODY = "00000000-0000-0000-0000-000000000000"
AT_ONCE = {"returnImmediately": True}


def test_cancel_ends_a_task_that_works(a2a: A2A) -> None:
    task = a2a.send(text("tck-cancel", configuration=AT_ONCE))

    cancelled = a2a.call("CancelTask", {"id": task["id"]})

    assert (cancelled["id"], state(cancelled)) == (task["id"], "CANCELED")
    assert a2a.get(task["id"]) == cancelled


def test_cancel_ends_a_task_that_waits(a2a: A2A) -> None:
    task = a2a.send(text("tck-input-required"))

    assert state(a2a.call("CancelTask", {"id": task["id"]})) == "CANCELED"
    assert a2a.error("SendMessage", text("late", taskId=task["id"]))["code"] == -32004


@pytest.mark.parametrize("prefix", ["tck-complete-task", "tck-task-failure", "tck-reject-task"])
def test_a_task_that_has_ended_cannot_be_cancelled(a2a: A2A, prefix: str) -> None:
    task = a2a.send(text(prefix))

    error = a2a.error("CancelTask", {"id": task["id"]})

    assert (error["code"], error["data"][0]["reason"]) == (-32002, "TASK_NOT_CANCELABLE")
    assert state(a2a.get(task["id"])) == state(task)


def test_a_task_cannot_be_cancelled_twice(a2a: A2A) -> None:
    task = a2a.send(text("tck-cancel", configuration=AT_ONCE))
    a2a.call("CancelTask", {"id": task["id"]})

    assert a2a.error("CancelTask", {"id": task["id"]})["code"] == -32002


@pytest.mark.req("MKS-TEN-1", "MKS-TEN-2")
def test_another_tenants_task_looks_like_none_on_every_method(a2a: A2A, rival: A2A) -> None:
    task = a2a.send(text("tck-input-required", contextId="shared-name"))

    def seen(method: str, params: Any) -> list[Any]:
        def plain(ref: str, given: Any) -> str:
            error = rival.error(method, given)
            assert error["code"] == -32001
            return unnumbered(error).replace(ref, "<id>")

        return [plain(task["id"], _with_id(params, task["id"])), plain(NOBODY, _with_id(params, NOBODY))]

    for method, given in (
        ("GetTask", {"id": "?"}),
        ("CancelTask", {"id": "?"}),
        ("SubscribeToTask", {"id": "?"}),
        ("SendMessage", text("mine now", taskId="?")),
        ("SendMessage", text("mine now", taskId="?", contextId="shared-name")),
        ("SendStreamingMessage", text("mine now", taskId="?")),
    ):
        foreign, missing = seen(method, given)
        assert foreign == missing
    assert rival.call("ListTasks", {"contextId": "shared-name"})["totalSize"] == 0
    assert rival.call("ListTasks", {})["tasks"] == []
    assert state(a2a.get(task["id"])) == "INPUT_REQUIRED"
    mine = rival.send(text("hello", contextId="shared-name"))
    assert [one["id"] for one in rival.call("ListTasks", {"contextId": "shared-name"})["tasks"]] == [mine["id"]]
    assert a2a.call("ListTasks", {"contextId": "shared-name"})["totalSize"] == 1


def test_those_who_ask_at_once_are_each_shown_their_own(a2a: A2A, rival: A2A) -> None:
    ours = [a2a.send(text("tck-complete-task")) for _ in range(4)]
    theirs = [rival.send(text("tck-complete-task")) for _ in range(4)]
    refs = [task["id"] for task in (*ours, *theirs)] + [NOBODY]
    asked = [(caller, ref) for caller in (a2a, rival) for ref in refs] * 4

    with ThreadPoolExecutor(len(asked)) as together:
        answers = list(together.map(lambda one: one[0].answer("GetTask", {"id": one[1]}), asked))

    mine = {(a2a, task["id"]): task for task in ours} | {(rival, task["id"]): task for task in theirs}
    shown = {place: answer["result"] for place, answer in enumerate(answers) if "result" in answer}
    assert shown == {place: mine[one] for place, one in enumerate(asked) if one in mine}
    assert {answer["error"]["code"] for answer in answers if "error" in answer} == {-32001}


@pytest.mark.req("MKS-TEN-1")
def test_a_tenant_that_a_request_names_is_not_believed(a2a: A2A, rival: A2A) -> None:
    task = rival.send(tool("identity_show") | {"tenant": "demo"})

    assert task["artifacts"][0]["parts"][0]["data"]["tenant"] != "demo"
    assert rival.call("ListTasks", {"tenant": "demo"})["totalSize"] == 1


def test_tasks_are_listed_newest_first_and_page_by_page(served: Server) -> None:
    caller = A2A(served, tenant=new_tenant(served)["slug"])
    made = [caller.send(text("hello"))["id"] for _ in range(5)]

    first = caller.call("ListTasks", {"pageSize": 2})
    second = caller.call("ListTasks", {"pageSize": 2, "pageToken": first["nextPageToken"]})
    third = caller.call("ListTasks", {"pageSize": 2, "pageToken": second["nextPageToken"]})

    pages = [[task["id"] for task in page["tasks"]] for page in (first, second, third)]
    assert pages == [made[4:2:-1], made[2:0:-1], made[:1]]
    assert {page["totalSize"] for page in (first, second, third)} == {5}
    assert {page["pageSize"] for page in (first, second, third)} == {2}
    assert third["nextPageToken"] == ""


def test_tasks_are_listed_by_status_time_and_with_artifacts_when_asked(served: Server) -> None:
    caller = A2A(served, tenant=new_tenant(served)["slug"])
    done, waiting = caller.send(text("tck-artifact-text")), caller.send(text("tck-input-required"))

    by_status = caller.call("ListTasks", {"status": "TASK_STATE_INPUT_REQUIRED"})["tasks"]
    by_time = caller.call("ListTasks", {"statusTimestampAfter": waiting["status"]["timestamp"]})["tasks"]
    none = caller.call("ListTasks", {"status": "TASK_STATE_AUTH_REQUIRED"})
    plain = caller.call("ListTasks", {"status": "TASK_STATE_COMPLETED", "historyLength": 0})["tasks"]
    full = caller.call("ListTasks", {"status": "TASK_STATE_COMPLETED", "includeArtifacts": True})["tasks"]

    assert [task["id"] for task in by_status] == [waiting["id"]]
    assert [task["id"] for task in by_time] == [waiting["id"]]
    assert (none["tasks"], none["totalSize"], none["nextPageToken"]) == ([], 0, "")
    assert not {"artifacts", "history"} & set(plain[0])
    assert full == [done]


@pytest.mark.parametrize(
    "given",
    [
        {"pageSize": 0},
        {"pageSize": 101},
        {"pageSize": -1},
        {"pageSize": "many"},
        {"pageToken": "what?"},
        {"pageToken": "AAAA"},
        {"status": "TASK_STATE_HAPPY"},
        {"statusTimestampAfter": "yesterday"},
        {"historyLength": -1},
        {"includeArtifacts": "perhaps"},
        {"contextId": 5},
        [],
        "all",
    ],
)
def test_a_list_that_cannot_be_understood_is_refused(a2a: A2A, given: Any) -> None:
    assert a2a.error("ListTasks", given)["code"] == -32602


@pytest.mark.parametrize("method", ["GetTask", "CancelTask", "SubscribeToTask"])
@pytest.mark.parametrize("ref", [NOBODY, "nobody", "../../etc/passwd", "'; DROP TABLE tasks; --", "é" * 50])
def test_an_id_that_nobody_has_is_not_found(a2a: A2A, method: str, ref: str) -> None:
    error = a2a.error(method, {"id": ref})

    assert (error["code"], error["data"][0]["reason"]) == (-32001, "TASK_NOT_FOUND")


@pytest.mark.parametrize("method", ["GetTask", "CancelTask", "SubscribeToTask"])
@pytest.mark.parametrize("given", [{}, {"id": ""}, {"id": 5}, {"id": None}, {"id": "x" * 300}, [], "id"])
def test_an_id_that_is_none_is_refused(a2a: A2A, method: str, given: Any) -> None:
    assert a2a.error(method, given)["code"] == -32602


def test_a_failed_task_says_no_more_than_it_should(a2a: A2A) -> None:
    task = a2a.send(params({"data": {"tool": ["identity_show"]}}))

    assert error_of(task)["code"] == "INVALID_PARAMS"
    assert not any(secret in str(task) for secret in SECRETS)


def _with_id(given: Any, ref: str) -> Any:
    if "message" in given:
        return {"message": given["message"] | {"taskId": ref}}
    return {"id": ref}
