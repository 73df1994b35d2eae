"""The disk of PostgreSQL is full for some seconds: nothing that was acknowledged is lost, and everything goes on."""

from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest

from tests.chaos.callers import Caller, envelope
from tests.chaos.installation import Installation
from tests.chaos.machine import full_disk
from tests.harness import wait_for


@pytest.fixture(scope="module")
def site() -> Iterator[Installation]:
    """A server and a worker on a PostgreSQL with little room."""
    made = Installation(disk_mb=220)
    made.add("s1", "serve", "--agent", "tests.chaos.agent:agent")
    made.add("w1", "worker")
    with made as running:
        if running.disk is None:
            pytest.skip("mounting a file system is not allowed here")
        yield running


@pytest.mark.req("GW-208")
def test_a_full_disk_is_an_answer_and_no_loss(site: Installation) -> None:
    caller = site.caller("s1")
    taken = {key: caller.submit(_work(key)) for key in ("before-1", "before-2")}
    assert site.disk is not None

    with full_disk(site.disk):
        refused = wait_for(lambda: _refused(caller, taken), "the disk to be noticed")
    if not site.postgres.running:  # it ends when it cannot even write down that it recovers
        site.postgres.start()

    assert (refused.status_code, refused.json()["code"]) == (503, "UPSTREAM_UNAVAILABLE")
    assert int(refused.headers["retry-after"]) > 0
    after = wait_for(lambda: _sent(caller, "after"), "the next task to be taken")
    taken["after"] = after.json()["data"]["task_id"]
    for key, task_id in taken.items():
        assert caller.reaches(task_id)["state"] == "succeeded", key
    assert [len(site.journal.read(key, "effect")) for key in taken] == [1] * len(taken)


def test_work_that_lasts_longer_than_its_lease_ends_after_a_full_disk(site: Installation) -> None:
    caller = site.caller("s1")
    assert site.disk is not None
    name = f"long-{uuid4().hex[:8]}"
    busy = caller.submit(envelope("work.long", {"name": "busy"}))
    site.journal.wait("busy", "tick")

    with full_disk(site.disk):
        wait_for(lambda: _refused(caller, {}), "the disk to be noticed")
    if not site.postgres.running:
        site.postgres.start()
    site.journal.open_gate("busy")
    assert caller.reaches(busy)["state"] == "succeeded"
    task_id = caller.submit(envelope("work.long", {"name": name}))

    site.wait_for_renewals(task_id)
    site.journal.open_gate(name)

    assert caller.reaches(task_id)["state"] == "succeeded"


def _work(key: str) -> dict[str, object]:
    return envelope("work.find", {"name": key}, idempotency_key=key)


def _refused(caller: Caller, taken: dict[str, str]) -> httpx.Response | None:
    """Submit until something is refused; what was taken has to be done."""
    key = f"during-{uuid4().hex[:8]}"
    answer = caller.rest("POST", "/api/tasks", _work(key) | {"matter": {"id": "x" * 200, "title": "y" * 200}})
    if answer.status_code == 201:
        taken[key] = answer.json()["data"]["task_id"]
        return None
    return answer


def _sent(caller: Caller, key: str) -> httpx.Response | None:
    answer = caller.rest("POST", "/api/tasks", _work(key))
    return answer if answer.status_code == 201 else None
