"""A tool that only reads is done in memory and written once; whatever it meets, its task is like any other."""

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from dragoman.context import report_progress
from dragoman.services.tenancy.users import UserService
from tests.backstage import connect, locked, metrics, sql
from tests.doors.a2a.calling import A2A, CONFORMANCE, error_of, state, tool
from tests.harness import InProcess, Server, wait_for

STEPS = "SELECT body FROM task_events WHERE task_id = $1::uuid ORDER BY seq"
COUNTED = (
    'dragoman_routing_total{by="tool"}',
    'dragoman_tasks_total{skill="identity",state="succeeded"}',
    'dragoman_operations_total{operation="identity.show",outcome="ok",skill="identity"}',
    'dragoman_task_seconds_count{skill="identity"}',
)


@pytest.fixture
def slow(served: Server) -> Iterator[Server]:
    """A server whose memories cannot be read for now."""
    with locked(served, "memories"):
        yield served


def begun(caller: A2A, context: str) -> "tuple[Future[dict[str, Any]], dict[str, Any]]":
    """A read that lasts, and its task as others see it meanwhile."""
    pool = ThreadPoolExecutor(1)
    sending = pool.submit(caller.send, tool("memory_list", contextId=context))
    pool.shutdown(wait=False)
    task = wait_for(lambda: next(iter(tasks_of(caller, context)), None), "the task to be stored")
    return sending, task


def tasks_of(caller: A2A, context: str) -> list[dict[str, Any]]:
    """The tasks of one conversation, with their artifacts."""
    return caller.call("ListTasks", {"contextId": context, "includeArtifacts": True})["tasks"]


def moves(server: Server, task_id: str) -> list[tuple[Any, ...]]:
    """What the log of a task says, in short."""
    bodies = [json.loads(row["body"]) for row in sql(server, STEPS, task_id)]
    return [(body["kind"], body.get("from"), body.get("to")) for body in bodies]


def test_a_read_is_stored_with_the_same_steps_as_one_that_is_streamed(served: Server, a2a: A2A) -> None:
    task = a2a.send(tool("identity_show"))
    streamed = a2a.events("SendStreamingMessage", tool("identity_show"))[0][1]["task"]

    assert a2a.get(task["id"]) == task
    assert moves(served, task["id"]) == moves(served, streamed["id"])
    assert sql(served, "SELECT 1 FROM task_queue WHERE task_id = $1::uuid", task["id"]) == []


def test_a_read_is_counted_once_by_every_metric(served: Server, a2a: A2A) -> None:
    before = metrics(served)

    a2a.send(tool("identity_show"))

    after = metrics(served)
    assert {name: after[name] - before.get(name, 0) for name in COUNTED} == dict.fromkeys(COUNTED, 1)


def test_a_read_with_wrong_arguments_is_a_failed_task_that_names_them(a2a: A2A) -> None:
    task = a2a.send(tool("memory_list", {"limit": "five"}))

    assert state(task) == "FAILED"
    assert error_of(task)["code"] == "INVALID_PARAMS"
    assert a2a.get(task["id"]) == task


def test_a_read_that_the_caller_may_not_make_is_a_failed_task_and_on_record(served: Server) -> None:
    caller = A2A(served, scopes=["read:tasks", "write:tasks"])

    task = caller.send(tool("memory_list"))

    assert error_of(task)["code"] == "UNAUTHORIZED"
    recorded = sql(served, "SELECT outcome FROM audit_records WHERE operation = 'memory.list'")
    assert [row["outcome"] for row in recorded] == ["refused"]


def test_a_read_that_lasts_is_stored_meanwhile_and_answered_when_it_has_ended(served: Server, a2a: A2A) -> None:
    with locked(served, "memories"):
        sending, meanwhile = begun(a2a, "lasting")
        assert state(meanwhile) == "WORKING"
        assert not sending.done()

    task = sending.result(30)
    assert (task["id"], state(task)) == (meanwhile["id"], "COMPLETED")
    assert a2a.get(task["id"]) == task
    assert len(tasks_of(a2a, "lasting")) == 1


def test_a_read_that_lasts_can_be_cancelled(slow: Server, a2a: A2A) -> None:
    sending, meanwhile = begun(a2a, "cancelled")

    A2A(slow).call("CancelTask", {"id": meanwhile["id"]})

    assert state(sending.result(30)) == "CANCELED"
    assert sql(slow, "SELECT 1 FROM task_queue WHERE task_id = $1::uuid", meanwhile["id"]) == []


def test_a_read_that_takes_too_long_fails_with_timeout() -> None:
    with InProcess(CONFORMANCE | {"DRAGOMAN_TASKS__TIMEOUT_S": "0.5"}) as hasty, locked(hasty, "memories"):
        task = A2A(hasty).send(tool("memory_list"))

        assert (error_of(task)["code"], error_of(task)["details"]) == ("TIMEOUT", {"after_s": 0.5})
        assert 'dragoman_task_errors_total{code="TIMEOUT",skill="memory"}' in metrics(hasty)


def test_what_a_read_tells_of_its_progress_is_in_the_log_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    whoami = UserService.whoami

    async def telling(self: UserService, *given: Any) -> Any:
        await report_progress("half of it", 50)
        return await whoami(self, *given)

    monkeypatch.setattr(UserService, "whoami", telling)
    with InProcess(CONFORMANCE) as server:
        task = A2A(server).send(tool("identity_show"))

        assert state(task) == "COMPLETED"
        kinds = [kind for kind, *_ in moves(server, task["id"])]
        assert kinds == ["status", "status", "status", "progress", "artifact", "status"]
        assert sql(server, "SELECT 1 FROM task_queue WHERE task_id = $1::uuid", task["id"]) == []


def test_a_read_goes_on_when_its_sender_has_left(served: Server, a2a: A2A) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": tool("memory_list", contextId="left")}
    body = json.dumps(call).encode()
    head = (
        f"POST /a2a HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {served.token()}\r\na2a-version: 1.0\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with locked(served, "memories"), connect(served) as wire:
        wire.sendall(head.encode() + body)
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'memories'::regclass"
        wait_for(lambda: sql(served, waits), "the read to begin")

    wait_for(lambda: [state(task) for task in tasks_of(a2a, "left")] == ["COMPLETED"], "the read to end")


def test_a_read_whose_task_takes_long_to_store_is_answered_once_it_is_stored(served: Server, a2a: A2A) -> None:
    pool = ThreadPoolExecutor(1)
    with locked(served, "task_events"):
        sending = pool.submit(a2a.send, tool("identity_show", contextId="held"))
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'task_events'::regclass"
        wait_for(lambda: sql(served, waits), "the write to wait")
        with suppress(TimeoutError):
            sending.result(0.5)
        assert not sending.done()

    assert [sending.result(30)["id"]] == [task["id"] for task in tasks_of(a2a, "held")]


def test_a_read_that_cannot_be_stored_is_refused_with_503_and_leaves_nothing() -> None:
    with InProcess(CONFORMANCE) as server:
        caller = A2A(server)
        caller.send(tool("identity_show"))
        name = sql(server, "SELECT current_database()")[0][0]
        sql(server, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false", database="postgres")
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1"
        sql(server, ended, name, database="postgres")

        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": tool("identity_show", contextId="away")}
        refused = caller.post(body)

        sql(server, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true", database="postgres")
        assert refused.status_code == 503
        assert "retry-after" in refused.headers
        assert tasks_of(caller, "away") == []
