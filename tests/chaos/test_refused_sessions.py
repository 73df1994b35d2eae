"""PostgreSQL refuses sessions for some seconds: everything that runs in the background goes on afterwards."""

from collections.abc import Iterator
from functools import partial
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.chaos.callers import envelope, message
from tests.chaos.installation import Installation, two_servers
from tests.chaos.nodes import Node
from tests.harness import wait_for
from tests.patience import PATIENCE_S
from tests.receiver import Receiver

# What asks the database every second or so, and must have met the refusal.
JOBS = ("task_claims", "push_delivery")
Health = dict[str, dict[str, Any]]


@pytest.fixture(scope="module", params=["28000", "55000"])
def refused(request: pytest.FixtureRequest) -> Iterator[tuple[Installation, list[Health]]]:
    """An installation after the refusal, and what `/health` of both servers said meanwhile."""
    with two_servers() as site:
        by_hba = request.param == "28000"
        _keep_busy(site)
        (site.postgres.refuse_by_hba if by_hba else site.postgres.refuse_connections)()
        said: list[Health] = []
        for node in site.nodes.values():
            wait_for(partial(_met_it, node, said), f"every job of {node.name} to be refused")
        (site.postgres.accept_by_hba if by_hba else site.postgres.accept_connections)()
        site.journal.open_gate("busy")
        yield site, said


def test_delegated_work_that_lasts_longer_than_its_lease_still_ends(refused: tuple[Installation, Any]) -> None:
    site, _ = refused
    caller = site.caller("s1")
    site.heal()
    name = f"long-{uuid4().hex[:8]}"
    task_id = caller.submit(envelope("work.long", {"name": name}))

    site.wait_for_renewals(task_id)
    site.journal.open_gate(name)

    assert caller.reaches(task_id)["state"] == "succeeded"


def test_webhooks_are_delivered(refused: tuple[Installation, Any]) -> None:
    site, _ = refused
    site.heal()
    with Receiver() as receiver:
        said = message({"data": {"name": "told", "for_s": 0}}, at_once=True)
        said["configuration"]["taskPushNotificationConfig"] = {"url": receiver.url}
        site.caller("s1").a2a("SendMessage", said)

        assert receiver.until("COMPLETED")[-1].state == "COMPLETED"


def test_a_turn_of_a_killed_server_is_taken_over(refused: tuple[Installation, Any]) -> None:
    site, _ = refused
    site.heal()
    name = f"left-{uuid4().hex[:8]}"
    task_id = site.caller("s1").say({"name": name})
    first = site.journal.wait(name, "begin")[0]

    site.nodes[first.node].kill()
    site.journal.wait(name, "begin", times=2)
    site.journal.open_gate(name)

    assert site.caller_beside(first.node).reaches(task_id)["state"] == "succeeded"


def test_health_names_the_job_that_fails_meanwhile(refused: tuple[Installation, list[Health]]) -> None:
    _, said = refused

    told = [health["dependencies"]["jobs"] for health in said]
    assert [one for one in told if one["status"] != "up" and all(job in one["detail"] for job in JOBS)]


def _keep_busy(site: Installation) -> None:
    """Give both servers leases to keep: a job without any may not notice that PostgreSQL refuses."""
    caller = site.caller("s1")
    for number in range(100):
        caller.submit(envelope("work.long", {"name": "busy"}, idempotency_key=f"busy-{number}"))
        if {one.node for one in site.journal.read("busy", "begin")} == {"s1", "s2"}:
            return
    raise AssertionError("one server took all the work")


def _met_it(node: Node, said: list[Health]) -> bool:
    """Ask `/health` until every job has failed, and the heartbeat too."""
    said.append(httpx.get(f"{node.url}/health", timeout=PATIENCE_S).json())
    failing = str(said[-1]["dependencies"].get("jobs", {}).get("detail"))
    heartbeat = any(line["message"] == "tasks.heartbeat_failed" for line in node.log_lines())
    return heartbeat and all(job in failing for job in JOBS)
