"""What must outlive a process: conversations, running tasks, those who follow them."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.backstage import sql
from tests.doors.a2a.calling import A2A, CONFORMANCE, busy, state, text
from tests.harness import InProcess, Process, Server, data_dir
from tests.patience import PATIENCE_S
from tests.tenants import beside

AT_ONCE = {"returnImmediately": True}


@pytest.mark.req("A2A-THR-2", "RAD-C2-1", "RAD-C2-2")
def test_a_conversation_goes_on_after_a_restart() -> None:
    home = data_dir()
    first = Process(CONFORMANCE, at=home).start()
    caller = A2A(first)
    task = caller.send(text("tck-multi-turn before"))
    [thread] = sql(first, "SELECT * FROM threads WHERE thread_id = $1", task["contextId"])
    assert {"thread_id", "tenant_id", "created_at", "updated_at", "conversation_context"} <= set(thread.keys())
    first.stop()

    with Process(CONFORMANCE, at=home) as second:
        caller = A2A(second)
        assert caller.get(task["id"]) == task
        done = caller.send(text("done", taskId=task["id"]))

    assert (state(done), done["contextId"]) == ("COMPLETED", task["contextId"])
    assert done["artifacts"][0]["parts"] == [{"data": {"first": "tck-multi-turn before", "last": "done"}}]


@pytest.mark.req("RAD-C2-3")
def test_a_conversation_that_was_idle_for_a_day_is_refused_and_one_that_was_not_goes_on(served: Server) -> None:
    """Time passes by moving the thread into the past, with all its times."""

    def pass_time(task: dict[str, Any], span: str) -> None:
        sql(
            served,
            "UPDATE threads SET created_at = created_at - $2::interval, updated_at = updated_at - $2::interval, "
            "expires_at = expires_at - $2::interval WHERE thread_id = $1".replace("$2", f"'{span}'"),
            task["contextId"],
        )

    caller = A2A(served)
    idle, used = (caller.send(text("tck-multi-turn")) for _ in range(2))
    for task in (idle, used):
        pass_time(task, "23 hours")
    caller.send(text("done", taskId=used["id"]))
    for task in (idle, used):
        pass_time(task, "2 hours")

    errors = [
        caller.error("SendMessage", text("done", taskId=idle["id"])),
        caller.error("SendMessage", text("hello", contextId=idle["contextId"])),
    ]
    goes_on = caller.send(text("hello", contextId=used["contextId"]))

    assert {error["data"][0]["metadata"]["code"] for error in errors} == {"THREAD_EXPIRED"}
    assert goes_on["contextId"] == used["contextId"]
    expired = "SELECT thread_id FROM threads WHERE expires_at < now() AND thread_id = ANY($1::text[])"
    [marked] = sql(served, expired, [idle["contextId"], used["contextId"]])
    assert marked["thread_id"] == idle["contextId"]


def test_a_task_of_a_killed_process_is_taken_over(served: Server, tmp_path: Path) -> None:
    other = Process(CONFORMANCE | beside(served)).start()
    there, here = A2A(other, keys_of=served), A2A(served)
    task = there.send(busy(tmp_path / "go", configuration=AT_ONCE))

    other.stop(signal.SIGKILL)
    with here.stream("SubscribeToTask", {"id": task["id"]}) as stream:
        next(stream)
        (tmp_path / "go").touch()
        events = [event for _, event in stream]

    assert state(events[-1]["statusUpdate"]) == "COMPLETED"
    done = here.get(task["id"])
    assert [artifact["name"] for artifact in done["artifacts"]] == ["result"]
    [row] = sql(served, "SELECT attempt FROM tasks WHERE id = $1::uuid", task["id"])
    assert row["attempt"] > 1


def test_a_task_is_cancelled_and_followed_from_another_process(served: Server) -> None:
    def follow(caller: A2A, begun: threading.Event) -> str:
        with caller.stream("SubscribeToTask", {"id": task["id"]}) as stream:
            next(stream)
            begun.set()
            return state(list(stream)[-1][1]["statusUpdate"])

    with InProcess(CONFORMANCE | beside(served)) as other, ThreadPoolExecutor(2) as pool:
        there, here = A2A(other, keys_of=served), A2A(served)
        task = there.send(text("tck-cancel", configuration=AT_ONCE))
        begun = [threading.Event(), threading.Event()]
        following = [pool.submit(follow, caller, event) for caller, event in zip((here, there), begun, strict=True)]
        assert all(event.wait(PATIENCE_S) for event in begun)

        cancelled = here.call("CancelTask", {"id": task["id"]})

        assert state(cancelled) == "CANCELED"
        assert [one.result(PATIENCE_S) for one in following] == ["CANCELED", "CANCELED"]
        assert there.get(task["id"]) == cancelled
        assert sql(served, "SELECT 1 FROM task_queue WHERE task_id = $1::uuid", task["id"]) == []


def test_a_conversation_goes_on_in_another_process(served: Server) -> None:
    with InProcess(CONFORMANCE | beside(served)) as other:
        there, here = A2A(other, keys_of=served), A2A(served)
        task = there.send(text("tck-multi-turn there"))

        done = here.send(text("done", taskId=task["id"]))

        assert there.get(task["id"]) == done
    assert done["artifacts"][0]["parts"] == [{"data": {"first": "tck-multi-turn there", "last": "done"}}]
