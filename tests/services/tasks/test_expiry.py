"""Approvals that end by themselves while several processes look after them."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.backstage import add_tenant, sql
from tests.doors.rest.calling import data
from tests.harness import InProcess, Server, wait_for
from tests.services.approvals.asking import Office, accept_policy, decide
from tests.services.tasks.conftest import with_workers
from tests.services.tasks.envelopes import envelope
from tests.tenants import beside

MANY = 30


@pytest.fixture(scope="module")
def offices(counting: Server, outside: Path) -> Iterator[tuple[Office, Office]]:
    """One tenant, at two servers."""
    slug = add_tenant(counting)
    with InProcess(with_workers(outside) | beside(counting)) as second:
        opened = Office(counting, slug), Office(second, slug, issuer=counting)
        yield opened
        for one in opened:
            one.close()


def waiting(office: Office) -> tuple[dict[str, Any], str]:
    """An approval, and a task that waits for it."""
    given = envelope("count.secret", {"name": f"n-{uuid4().hex}"}, actor={"id": "ann", "type": "human"})
    asked = office.ask(
        action=given["action"], resource=given["resource"], matter_id=given["matter"]["id"], input=given["input"]
    )
    governance = {"policy_refs": ["contracts-approval@1"], "approval_refs": [asked["approval_id"]]}
    made = data(office.person("ann").post("/api/tasks", json={**given, "governance": governance}), 201)
    assert made["state"] == "input_required"
    return asked, made["task_id"]


def records(office: Office, operation: str) -> list[dict[str, Any]]:
    return data(office.person("root", "org_admin").get("/api/audit", params={"operation": operation, "limit": 100}))


def test_each_approval_that_expires_is_recorded_once_and_ends_its_task_whichever_process_sweeps(
    offices: tuple[Office, Office],
) -> None:
    first, second = offices
    both = [waiting(office) for _ in range(MANY // 2) for office in offices]
    unused = data(decide(first.person("bob"), first.ask()))
    ids = [asked["approval_id"] for asked, _ in both] + [unused["approval_id"]]

    sql(first.server, "UPDATE approvals SET expires_at = now() WHERE id = ANY ($1::text[]::uuid[])", ids)

    for _, task_id in both:
        ended = wait_for(
            lambda task_id=task_id: (view := data(second.person("ann").get(f"/api/tasks/{task_id}")))["error"] and view,
            "the end of a task",
        )
        assert (ended["state"], ended["error"]["code"]) == ("failed", "APPROVAL_EXPIRED")
    wait_for(lambda: second.show(unused)["closed_at"], "the sweep")
    found = records(first, "approval.expire")
    assert Counter(one["resource"] for one in found) == Counter(ids)
    assert {(one["subject"], one["outcome"], one["door"]) for one in found} == {("dragoman", "done", "internal")}
    assert {one["resource"]: one["details"]["was"] for one in found}[unused["approval_id"]] == "approved"
    assert Counter(one["details"]["was"] for one in found) == {"pending": MANY, "approved": 1}


def test_an_approval_that_goes_stale_is_recorded_once(offices: tuple[Office, Office]) -> None:
    first, second = offices
    asked = first.ask()

    accept_policy(first, "two-eyes", approvals={"actions": ["signature.*"], "quorum": 2})

    wait_for(lambda: second.show(asked)["state"] == "stale", "the sweep")
    [record] = records(second, "approval.spoil")
    assert (record["resource"], record["subject"]) == (asked["approval_id"], "dragoman")
    assert record["details"] == {
        "action": asked["action"], "matter_id": "matter-7", "requested_by": "ann", "was": "pending",
    }  # fmt: skip
