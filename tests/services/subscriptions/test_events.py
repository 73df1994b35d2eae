"""What subscribers are told of: real tasks and approvals, over a real socket, signed."""

import pytest

from tests.doors.rest.calling import data
from tests.harness import Server, wait_for
from tests.receiver import Receiver
from tests.services.approvals.asking import NDA
from tests.services.subscriptions.subscribing import Tenant, verified
from tests.services.tasks.envelopes import ended, status


def test_a_receiver_is_told_that_a_task_has_ended_with_its_ids_and_no_content(
    tenant: Tenant, receiver: Receiver
) -> None:
    subscription = tenant.subscribe(receiver, "task.finished")
    task = tenant.hand_over("count.once", given={"name": "not-for-everyone"})

    told = verified(notification := receiver.next(), subscription["secret"])

    seq = ended(tenant.person(), task["task_id"]) and told["data"].pop("seq")
    assert told["data"] == {
        "task_id": task["task_id"],
        "run_id": task["task_id"],
        "run": 1,
        "state": "succeeded",
        "action": "count.once",
        "matter_id": "matter-1",
        "correlation_id": "corr-1",
        "dry_run": False,
    }
    assert (told["type"], told["subject"]) == ("task.finished", task["task_id"])
    assert notification.headers["webhook-id"] == f"msg_{task['task_id'].replace('-', '')}_{seq}"
    assert notification.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("patterns", "types"),
    [
        (["approval.requested"], ["approval.requested"]),
        (["approval.*"], ["approval.requested", "approval.decided"]),
        (["task.*", "approval.decided"], ["approval.decided", "task.finished"]),
        (["*"], ["approval.requested", "approval.decided", "task.finished"]),
    ],
)
def test_a_subscription_gets_the_events_that_its_patterns_cover(
    tenant: Tenant, receiver: Receiver, patterns: list[str], types: list[str]
) -> None:
    subscription = tenant.subscribe(receiver, *patterns)
    approval = data(tenant.person("ann", "operator").post("/api/approvals", json=NDA), 201)
    data(tenant.person("bob", "operator").post(f"/api/approvals/{approval['approval_id']}/decide",
                                               json={"decision": "approve"}))  # fmt: skip
    task = tenant.hand_over()
    ended(tenant.person(), task["task_id"])

    told = [receiver.next().json["type"] for _ in types]

    assert sorted(told) == sorted(types)
    assert len(tenant.deliveries(subscription)) == len(types)


def test_approvers_are_told_of_what_waits_for_them_and_of_what_was_decided(tenant: Tenant, receiver: Receiver) -> None:
    subscription = tenant.subscribe(receiver, "approval.*")
    ann, bob = tenant.person("ann", "operator"), tenant.person("bob", "operator")

    approval = data(ann.post("/api/approvals", json={**NDA, "reason": "a secret reason"}), 201)
    asked = verified(receiver.next(), subscription["secret"])
    data(bob.post(f"/api/approvals/{asked['data']['approval_id']}/decide", json={"decision": "approve"}))
    decided = verified(receiver.next(), subscription["secret"])

    assert (asked["type"], decided["type"]) == ("approval.requested", "approval.decided")
    assert (asked["data"]["state"], decided["data"]["state"]) == ("pending", "approved")
    assert asked["data"] == decided["data"] | {"state": "pending"}
    expected = {name: approval[name] for name in ("approval_id", "action", "resource", "matter_id", "requested_by",
                                                  "digest", "quorum", "roles", "people_only")}  # fmt: skip
    assert expected.items() <= asked["data"].items()
    assert "input" not in asked["data"]
    assert "secret reason" not in str(asked)


def test_a_task_that_waits_for_a_person_is_told_of_and_again_when_it_has_ended(
    tenant: Tenant, receiver: Receiver
) -> None:
    tenant.subscribe(receiver, "task.*")
    task = tenant.hand_over("count.ask")

    waiting = receiver.next().json
    tenant.person().post(f"/api/tasks/{task['task_id']}/cancel", json={})
    over = receiver.next().json

    assert (waiting["type"], waiting["data"]["state"]) == ("task.input_required", "input_required")
    assert (over["type"], over["data"]["state"]) == ("task.finished", "cancelled")
    assert over["data"]["seq"] > waiting["data"]["seq"]
    assert status(tenant.person(), task["task_id"])["state"] == "cancelled"


def test_events_of_another_tenant_never_arrive(telling: Server, tenant: Tenant, receiver: Receiver) -> None:
    rival = Tenant(telling)
    with Receiver() as theirs:
        subscription = rival.subscribe(theirs)
        tenant.subscribe(receiver)

        task = tenant.hand_over()
        ended(tenant.person(), task["task_id"])
        told = receiver.next().json
        own = rival.hand_over()

        assert told["data"]["task_id"] == task["task_id"]
        assert theirs.next().json["data"]["task_id"] == own["task_id"]
        assert len(rival.deliveries(subscription)) == 1
    rival.close()


def test_what_happened_before_a_subscription_or_while_it_is_paused_is_not_told(
    tenant: Tenant, receiver: Receiver
) -> None:
    ended(tenant.person(), tenant.hand_over()["task_id"])
    subscription = tenant.subscribe(receiver)
    tenant.ask("PATCH", f"/{subscription['id']}", {"active": False})
    ended(tenant.person(), tenant.hand_over()["task_id"])
    tenant.ask("PATCH", f"/{subscription['id']}", {"active": True})

    task = tenant.hand_over()

    assert receiver.next().json["data"]["task_id"] == task["task_id"]
    assert len(wait_for(lambda: tenant.deliveries(subscription, state="delivered"), "the delivery")) == 1
