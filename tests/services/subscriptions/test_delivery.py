"""How events reach receivers that fail, refuse, ask for time or are gone, and what the log of deliveries says of it."""

import threading

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from tests.backstage import metrics, sql
from tests.doors.rest.calling import data
from tests.harness import InProcess, Server, wait_for
from tests.receiver import Receiver, Reply
from tests.services.subscriptions.subscribing import SOON, Tenant, verified
from tests.services.tasks.conftest import with_workers
from tests.services.tasks.envelopes import ended
from tests.tenants import beside, invite

AWAY = {"location": "http://127.0.0.1:1/"}


def test_an_event_that_is_not_taken_is_tried_again_under_the_same_id(tenant: Tenant) -> None:
    with Receiver(Reply(500), Reply(429, {"retry-after": "0"})) as receiver:
        subscription = tenant.subscribe(receiver)
        tenant.hand_over()

        told = [receiver.next() for _ in range(3)]

    delivery = tenant.delivery(subscription, state="delivered")
    assert len({one.headers["webhook-id"] for one in told}) == 1
    assert len({one.body for one in told}) == 1
    assert all(verified(one, subscription["secret"]) for one in told)
    assert (delivery["attempts"], delivery["webhook_id"]) == (3, told[0].headers["webhook-id"])
    assert [one["status"] for one in delivery["history"]] == [500, 429, 200]
    assert [one["reason"] for one in delivery["history"]] == ["HTTP 500", "HTTP 429", None]
    assert delivery["last"] == delivery["history"][-1]
    assert delivery["last"]["duration_ms"] >= 0
    assert tenant.get(subscription)["failures"] == 0


@pytest.mark.parametrize("status", [301, 307, 400, 401, 404, 503])
def test_what_is_never_taken_is_given_up_and_a_redirect_is_not_followed(tenant: Tenant, status: int) -> None:
    replies = [Reply(status, AWAY)] * 3
    with Receiver(*replies) as receiver:
        subscription = tenant.subscribe(receiver, "task.finished")
        tenant.hand_over()

        delivery = tenant.delivery(subscription, state="failed")

        assert receiver.received.qsize() == 3
    assert {one["status"] for one in delivery["history"]} == {status}
    after = tenant.get(subscription)
    assert (after["state"], after["failures"]) == ("active", 3)
    assert after["failing_since"] is not None


def test_one_event_that_is_never_taken_does_not_hold_up_the_next(tenant: Tenant) -> None:
    with Receiver(Reply(400), Reply(400), Reply(400)) as receiver:
        subscription = tenant.subscribe(receiver, "task.finished")
        tenant.hand_over()
        tenant.delivery(subscription, state="failed")

        task = tenant.hand_over()

        assert tenant.delivery(subscription, state="delivered")["subject"] == task["task_id"]
    assert tenant.get(subscription)["failures"] == 0


def test_a_receiver_that_says_it_is_gone_loses_its_subscription_at_once(telling: Server, tenant: Tenant) -> None:
    with Receiver(Reply(410)) as receiver, Receiver() as other:
        subscription = tenant.subscribe(receiver, "task.*")
        tenant.subscribe(other, "subscription.*")
        tenant.hand_over()

        notice = other.next().json

        assert notice["data"]["subscription_id"] == subscription["id"]
        after = tenant.get(subscription)
        assert (after["state"], after["reason"]) == ("disabled", "the receiver answered HTTP 410: it is gone")
        assert receiver.received.qsize() == 1
    events = [one for one in telling.security_events() if one["event"] == "subscription_disabled"]
    assert f"subscription/{subscription['id']}" in {event["resource"] for event in events}
    records = data(tenant.person().get("/api/audit", params={"operation": "subscription.disable"}))
    assert [(record["resource"], record["reason"]) for record in records] == [(subscription["id"], after["reason"])]
    assert metrics(telling)["dragoman_subscriptions_disabled_total"] >= 1


def test_one_that_takes_nothing_for_long_is_disabled_and_goes_on_when_it_is_made_active(
    telling: Server, tenant: Tenant
) -> None:
    with Receiver(*[Reply(400)] * 4) as receiver:
        subscription = tenant.subscribe(receiver, "task.finished")
        tenant.hand_over()
        tenant.delivery(subscription, state="failed")
        days = "UPDATE subscriptions SET failing_since = now() - interval '4 days' WHERE id = $1::text::uuid"
        sql(telling, days, subscription["id"])
        task = tenant.hand_over()
        disabled = wait_for(lambda: (now := tenant.get(subscription))["state"] == "disabled" and now, "the end of it")
        ended(tenant.person(), tenant.hand_over()["task_id"])

        tenant.ask("PATCH", f"/{subscription['id']}", {"active": True})

        delivery = tenant.delivery(subscription, state="delivered")
    assert disabled["reason"].startswith("the receiver has taken nothing since ")
    assert disabled["reason"].endswith("at last: HTTP 400")
    # What was pending goes on, and what happened meanwhile was kept for nobody.
    assert delivery["subject"] == task["task_id"]
    assert len(tenant.deliveries(subscription)) == 2
    after = tenant.get(subscription)
    assert (after["state"], after["reason"], after["failing_since"]) == ("active", None, None)


def test_a_slow_receiver_holds_up_no_other(tenant: Tenant, receiver: Receiver) -> None:
    leave = threading.Event()
    with Receiver(*[Reply(held=leave)] * 20) as slow:
        tenant.subscribe(slow, "task.finished")
        tenant.subscribe(receiver, "task.finished")

        tasks = {tenant.hand_over()["task_id"] for _ in range(12)}

        assert {receiver.next().json["subject"] for _ in tasks} == tasks
        leave.set()


def test_a_delivery_is_sent_again_by_its_id_whatever_became_of_it(tenant: Tenant, receiver: Receiver) -> None:
    subscription = tenant.subscribe(receiver, "task.finished")
    tenant.hand_over()
    first = receiver.next()
    delivery = tenant.delivery(subscription, state="delivered")

    again = data(tenant.person().post(f"/api/deliveries/{delivery['id']}/redeliver"))

    second = receiver.next()
    assert again["state"] == "pending"
    assert (second.headers["webhook-id"], second.body) == (first.headers["webhook-id"], first.body)
    wait_for(lambda: len(tenant.delivery(subscription)["history"]) == 2, "the second attempt in the log")
    tenant.ask("PATCH", f"/{subscription['id']}", {"active": False})
    refused = tenant.person().post(f"/api/deliveries/{delivery['id']}/redeliver")
    assert (refused.status_code, refused.json()["details"]["reason"]) == (409, "WRONG_STATE")


def test_a_rotated_secret_signs_beside_the_one_before_until_the_grace_is_over(
    telling: Server, tenant: Tenant, receiver: Receiver
) -> None:
    subscription = tenant.subscribe(receiver)
    rotated = tenant.ask("POST", f"/{subscription['id']}/rotate", {"grace_s": 3600}, 201)
    tenant.hand_over()
    with_both = receiver.next()

    sql(telling, "UPDATE subscriptions SET previous_until = now() WHERE id = $1::text::uuid", subscription["id"])
    tenant.hand_over()
    with_new = receiver.next()

    assert rotated["secret"] != subscription["secret"]
    assert rotated["secret"].startswith("whsec_")
    assert len(with_both.headers["webhook-signature"].split()) == 2
    assert verified(with_both, subscription["secret"]) == verified(with_both, rotated["secret"])
    assert verified(with_new, rotated["secret"])
    with pytest.raises(WebhookVerificationError):
        Webhook(subscription["secret"]).verify(with_new.body, with_new.headers)


def test_a_test_says_what_the_receiver_answered_and_changes_nothing_else(tenant: Tenant) -> None:
    with Receiver(Reply(204), Reply(500)) as receiver:
        subscription = tenant.subscribe(receiver, "cost.anomaly")

        taken = tenant.ask("POST", f"/{subscription['id']}/test")
        not_taken = tenant.ask("POST", f"/{subscription['id']}/test")

        assert verified(receiver.next(), subscription["secret"])["type"] == "subscription.test"
        assert receiver.received.qsize() == 1
    assert (taken["state"], taken["last"]["status"]) == ("delivered", 204)
    assert (not_taken["state"], not_taken["last"]["reason"]) == ("failed", "HTTP 500")
    assert tenant.get(subscription)["failures"] == 0


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1/hook", "https://169.254.169.254/latest", "https://[::1]/", "ftp://a.b"]
)
def test_an_address_that_must_not_be_reached_is_refused_when_it_is_given(tenant: Tenant, url: str) -> None:
    with Receiver() as receiver:
        subscription = tenant.subscribe(receiver)
    new = tenant.person().post("/api/subscriptions", json={"url": url, "events": ["*"]})
    moved = tenant.person().patch(f"/api/subscriptions/{subscription['id']}", json={"url": url})

    assert {new.json()["code"], moved.json()["code"]} <= {"ADDRESS_REFUSED", "INVALID_PARAMS"}
    assert tenant.get(subscription)["url"] == subscription["url"]


def test_an_address_that_has_come_to_be_forbidden_is_not_reached(telling: Server, tenant: Tenant) -> None:
    with Receiver() as receiver:
        subscription = tenant.subscribe(receiver)
        moved = "UPDATE subscriptions SET url = 'https://10.0.0.1/hook' WHERE id = $1::text::uuid"
        sql(telling, moved, subscription["id"])
        tenant.hand_over()

        delivery = tenant.delivery(subscription, state="failed")

        assert receiver.received.empty()
    assert "must not be reached" in delivery["last"]["reason"]


@pytest.mark.parametrize("how", ["disabled", "demoted"])
def test_nothing_is_delivered_for_a_maker_who_is_no_longer_permitted(
    tenant: Tenant, receiver: Receiver, how: str
) -> None:
    user = invite(tenant.person(), "eve", "org_admin")
    eve = tenant.person("eve")
    subscription = data(eve.post("/api/subscriptions", json={"url": receiver.url, "events": ["*"]}), 201)
    if how == "disabled":
        data(tenant.person().post(f"/api/users/{user['id']}/disable"))
    else:
        data(tenant.person().patch(f"/api/users/{user['id']}", json={"role": "viewer"}))

    tenant.hand_over()

    disabled = wait_for(lambda: (now := tenant.get(subscription))["state"] == "disabled" and now, "the end of it")
    assert disabled["reason"] == "the credentials that made it, or changed it last, are no longer valid"
    assert receiver.received.empty()
    tenant.ask("PATCH", f"/{subscription['id']}", {"active": True})
    assert receiver.next().json["type"] == "task.finished"


def test_two_servers_deliver_each_event_once(telling: Server, tenant: Tenant, receiver: Receiver) -> None:
    with InProcess(beside(telling) | with_workers(telling.data_dir) | SOON):
        tenant.subscribe(receiver, "task.finished")

        tasks = [tenant.hand_over()["task_id"] for _ in range(30)]
        for task_id in tasks:
            ended(tenant.person(), task_id)
        told = [receiver.next() for _ in tasks]

    assert sorted(one.json["subject"] for one in told) == sorted(tasks)
    assert len({one.headers["webhook-id"] for one in told}) == len(tasks)
    assert receiver.received.empty()


def test_old_deliveries_leave_the_log_and_a_removed_subscription_takes_its_own(
    telling: Server, tenant: Tenant, receiver: Receiver
) -> None:
    subscription = tenant.subscribe(receiver, "task.finished")
    tenant.hand_over()
    receiver.next()

    tenant.ask("DELETE", f"/{subscription['id']}")

    left = "SELECT 1 FROM subscription_deliveries WHERE subscription_id = $1::text::uuid"
    assert sql(telling, left, subscription["id"]) == []
    tenant.hand_over()
    assert sql(telling, left, subscription["id"]) == []
    assert tenant.person().get(f"/api/subscriptions/{subscription['id']}").status_code == 404
