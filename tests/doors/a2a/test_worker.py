"""Which processes run which tasks, and what the metrics say of them."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.backstage import metrics, sql
from tests.doors.a2a.calling import A2A, CONFORMANCE, state, text, tool
from tests.harness import Process, Server, wait_for
from tests.services.tasks.conftest import with_workers
from tests.services.tasks.envelopes import envelope, status, submit


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that performs no actions."""
    workers = with_workers(tmp_path_factory.mktemp("outside"))
    paths = os.pathsep.join([CONFORMANCE["PYTHONPATH"], workers["PYTHONPATH"]])
    with Process(CONFORMANCE | workers | {"PYTHONPATH": paths}, "--no-worker") as running:
        yield running


def test_a_server_without_a_worker_leaves_actions_to_others(idle: Server) -> None:
    with idle.client(idle.token()) as client:
        made = submit(client, envelope("count.nothing"))

        # A look at the queue comes after the moment at which a worker would have claimed the task.
        wait_for(lambda: metrics(idle).get('dragoman_task_queue{state="due"}') == 1, "a look at the queue")

        assert status(client, made["task_id"])["state"] == "queued"


def test_a_server_without_a_worker_runs_turns_that_wait_for_others_of_their_conversation_or_were_left(
    idle: Server,
) -> None:
    caller = A2A(idle)
    left = caller.send(text("tck-long-running seconds=1", configuration={"returnImmediately": True}))
    # As if a process that has died since had run it.
    abandon = "UPDATE task_queue SET worker = gen_random_uuid(), lease_until = now() - interval '1 s'"
    sql(idle, f"{abandon} WHERE task_id = $1::uuid", left["id"])
    behind = caller.send(text("hello", contextId=left["contextId"]))

    assert state(wait_for(lambda: ended(caller.get(behind["id"])), "the end of the second")) == "COMPLETED"
    assert state(caller.get(left["id"])) == "COMPLETED"


def ended(task: dict[str, Any]) -> dict[str, Any] | None:
    return task if state(task) not in ("SUBMITTED", "WORKING") else None


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
