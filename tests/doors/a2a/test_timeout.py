"""A turn has its time. It runs on when the process changes, and stands still while a person is asked."""

import signal
from collections.abc import Iterator

import pytest

from tests.backstage import sql
from tests.doors.a2a.calling import A2A, CONFORMANCE, brief, error_of, state, text
from tests.harness import InProcess, Server
from tests.tenants import beside

AT_ONCE = {"returnImmediately": True}


@pytest.fixture(scope="module")
def hasty() -> Iterator[Server]:
    """A server where a turn has a second: what must come to its end takes place at another one."""
    with InProcess(CONFORMANCE | {"DRAGOMAN_TASKS__TIMEOUT_S": "1"}) as running:
        yield running


def test_a_turn_that_takes_too_long_is_stopped_and_its_task_fails_with_timeout(hasty: Server) -> None:
    caller = A2A(hasty)
    task = caller.send(text("tck-cancel", configuration=AT_ONCE))

    with caller.stream("SubscribeToTask", {"id": task["id"]}) as stream:
        events = [event for _, event in stream]

    assert state(events[-1]["statusUpdate"]) == "FAILED"
    error = error_of(caller.get(task["id"]))
    assert (error["code"], error["details"]) == ("TIMEOUT", {"after_s": 1.0})
    assert sql(hasty, "SELECT 1 FROM task_queue WHERE task_id = $1::uuid", task["id"]) == []


def test_a_task_that_waits_for_input_keeps_its_state_beyond_the_time_of_a_turn(served: Server) -> None:
    """A turn has an hour there."""
    caller = A2A(served)
    task = caller.send(text("tck-multi-turn"))
    long_ago = "UPDATE tasks SET created_at = created_at - interval '2 h', status_at = status_at - interval '2 h'"
    sql(served, f"{long_ago} WHERE id = $1::uuid", task["id"])

    done = caller.send(text("done", taskId=task["id"]))

    assert state(done) == "COMPLETED"


def test_the_time_of_a_turn_runs_on_when_its_process_is_killed(hasty: Server) -> None:
    patient = Server(CONFORMANCE | beside(hasty)).start()
    task = A2A(patient, keys_of=hasty).send(text("tck-cancel", configuration=AT_ONCE))
    patient.stop(signal.SIGKILL)
    caller = A2A(hasty)

    with caller.stream("SubscribeToTask", {"id": task["id"]}) as stream:
        events = [event for _, event in stream]

    assert state(events[-1]["statusUpdate"]) == "FAILED"
    assert error_of(caller.get(task["id"]))["code"] == "TIMEOUT"


def test_a_blocking_send_is_answered_with_a_task_at_work_when_it_has_waited_for_long(served: Server) -> None:
    with brief(CONFORMANCE | beside(served)) as short:
        caller = A2A(short, keys_of=served)

        task = caller.send(text("tck-cancel"))

        assert state(task) == "WORKING"
        caller.call("CancelTask", {"id": task["id"]})
