"""Processes whose clocks differ agree on when a task is due: the clock of the database decides."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from tests.chaos.callers import envelope
from tests.chaos.installation import Installation, ahead_by

AHEAD_S = 3600


@pytest.fixture(scope="module")
def skewed() -> Iterator[Installation]:
    """A server whose clock is an hour ahead, and a worker with the right one."""
    made = Installation()
    made.add("s1", "serve", "--no-worker", environment=ahead_by(AHEAD_S))
    made.add("w1", "worker")
    with made as running:
        yield running


def test_a_task_that_a_server_ahead_of_time_takes_is_due_at_once(skewed: Installation) -> None:
    caller = skewed.caller("s1")
    name = f"due-{uuid4().hex[:8]}"
    task_id = caller.submit(envelope("work.find", {"name": name}))

    assert caller.reaches(task_id)["state"] == "succeeded"
    assert [one.node for one in skewed.journal.read(name, "effect")] == ["w1"]


def test_a_retry_by_a_server_ahead_of_time_is_due_at_once(skewed: Installation) -> None:
    caller = skewed.caller("s1")
    task_id = caller.submit(envelope("work.never"))
    # However it was submitted, its first run ends here: the retry alone is looked at.
    skewed.postgres.run("UPDATE task_queue SET run_at = now() WHERE task_id = $1::uuid AND worker IS NULL", task_id)
    assert caller.reaches(task_id)["state"] == "dead_letter"

    again = caller.rest("POST", f"/api/tasks/{task_id}/retry", {})

    assert again.status_code == 200, again.text
    ended = caller.reaches(task_id)
    assert (ended["state"], ended["run"]) == ("dead_letter", 2)


def test_a_worker_ahead_of_time_does_not_fail_a_task_before_its_deadline() -> None:
    deadline = datetime.now(UTC) + timedelta(seconds=AHEAD_S / 2)
    made = Installation()
    made.add("s1", "serve", "--no-worker")
    made.add("w1", "worker", environment=ahead_by(AHEAD_S))
    with made as site:
        caller, name = site.caller("s1"), f"early-{uuid4().hex[:8]}"
        given = envelope("work.find", {"name": name}, request={"deadline": deadline.isoformat()})

        ended = caller.reaches(caller.submit(given))

        assert ended["state"] == "succeeded", ended
        assert [one.node for one in site.journal.read(name, "effect")] == ["w1"]


def test_a_server_ahead_of_time_takes_a_task_whose_deadline_has_not_come(skewed: Installation) -> None:
    caller, name = skewed.caller("s1"), f"timely-{uuid4().hex[:8]}"
    deadlines = [(datetime.now(UTC) + timedelta(seconds=seconds)).isoformat() for seconds in (AHEAD_S / 2, -1)]

    timely, late = (
        caller.rest("POST", "/api/tasks", envelope("work.find", {"name": name}, request={"deadline": deadline}))
        for deadline in deadlines
    )

    assert (late.status_code, late.json()["details"]["reason"]) == (504, "DEADLINE_PASSED")
    assert timely.status_code == 201, timely.text
    assert caller.reaches(timely.json()["data"]["task_id"])["state"] == "succeeded"


def test_a_retry_by_a_server_ahead_of_time_keeps_the_deadline(skewed: Installation) -> None:
    deadline = (datetime.now(UTC) + timedelta(seconds=AHEAD_S / 2)).isoformat()
    caller = skewed.caller("s1")
    task_id = caller.submit(envelope("work.never", request={"deadline": deadline}))
    caller.reaches(task_id, "dead_letter")

    caller.rest("POST", f"/api/tasks/{task_id}/retry", {}).raise_for_status()

    rows = skewed.postgres.run(
        "SELECT run, deadline IS NOT NULL AS kept FROM delegations WHERE canonical_id = $1::uuid ORDER BY run", task_id
    )
    assert [(row["run"], row["kept"]) for row in rows] == [(1, True), (2, True)]
