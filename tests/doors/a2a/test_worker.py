"""Which processes run which tasks, and what the metrics say of them."""

from collections.abc import Iterator

import pytest

from tests.backstage import metrics, sql
from tests.doors.a2a.calling import A2A, CONFORMANCE, state, text, tool
from tests.harness import Process, Server, wait_for


@pytest.fixture(scope="module")
def idle() -> Iterator[Server]:
    """A server that takes over nothing."""
    with Process(CONFORMANCE, "--no-worker") as running:
        yield running


def test_a_server_without_a_worker_runs_what_it_is_asked_and_leaves_what_others_left(idle: Server) -> None:
    caller = A2A(idle)
    task = caller.send(text("tck-cancel", configuration={"returnImmediately": True}))
    # As if a process that has died since had run it.
    abandon = "UPDATE task_queue SET worker = gen_random_uuid(), lease_until = now() - interval '1 s'"
    sql(idle, f"{abandon} WHERE task_id = $1::uuid", task["id"])

    # A look at the queue comes after the moment at which a worker would have taken the task.
    wait_for(lambda: metrics(idle).get('dragoman_task_queue{state="left"}') == 1, "a look at the queue")

    [row] = sql(idle, "SELECT attempt FROM tasks WHERE id = $1::uuid", task["id"])
    assert row["attempt"] == 1
    assert state(caller.send(text("hello"))) == "COMPLETED"


@pytest.mark.req("A2A-OBS-2")
def test_the_metrics_count_tasks_their_time_and_their_errors_by_skill(idle: Server) -> None:
    caller = A2A(idle)
    caller.send(text("tck-task-failure"))
    caller.send(tool("identity_show"))
    caller.send(tool("identity_show", {"unknown": 1}))

    with idle.client() as client:
        answer = client.get("/metrics")
    counted = metrics(idle)

    assert answer.headers["content-type"].startswith("text/plain")
    assert counted['dragoman_tasks_total{skill="conformance",state="failed"}'] == 1
    assert counted['dragoman_task_errors_total{code="SKILL_FAILED",skill="conformance"}'] == 1
    assert counted['dragoman_task_seconds_count{skill="identity"}'] >= 1
    assert counted['dragoman_tasks_total{skill="identity",state="succeeded"}'] == 1
    assert counted['dragoman_task_errors_total{code="INVALID_PARAMS",skill="identity"}'] == 1
    assert counted['dragoman_operations_total{operation="identity.show",outcome="ok",skill="identity"}'] == 1


def test_the_metrics_say_how_messages_found_their_work(idle: Server) -> None:
    def counted(by: str) -> float:
        return metrics(idle).get(f'dragoman_routing_total{{by="{by}"}}', 0)

    caller = A2A(idle)
    before = counted("tool"), counted("only_skill")

    caller.send(tool("identity_show"))
    caller.send(text("hello"))

    assert (counted("tool"), counted("only_skill")) == (before[0] + 1, before[1] + 1)
