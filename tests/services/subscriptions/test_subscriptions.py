"""Subscriptions themselves: what is refused, what is shown once, and who may see what."""

from typing import Any
from uuid import uuid4

import pytest

from tests.backstage import sql
from tests.doors.rest.calling import data
from tests.harness import Server, wait_for
from tests.receiver import Receiver
from tests.services.subscriptions.subscribing import Tenant

COLUMNS = """
SELECT c.relname AS "table" FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1"""


@pytest.mark.parametrize(
    ("given", "field", "says"),
    [
        ({"events": ["task.finshed"]}, "events", "did you mean 'task.finished'?"),
        ({"events": ["tasks.*"]}, "events", "did you mean 'task.*'?"),
        ({"events": ["zzz"]}, "events", "cost.anomaly"),
        ({"events": []}, "events", ""),
        ({"events": "*"}, "events", ""),
        ({"url": ""}, "url", ""),
        ({"secret": "whsec_mine"}, "secret", ""),
        ({"url": "https://a.example/" + "a" * 2_048}, "url", ""),
    ],
)
def test_what_is_wrong_with_a_subscription_is_named(
    tenant: Tenant, given: dict[str, Any], field: str, says: str
) -> None:
    answer = (
        tenant.person().post("/api/subscriptions", json={"url": "http://127.0.0.1:9/", "events": ["*"], **given}).json()
    )

    assert answer["code"] == "INVALID_PARAMS"
    assert answer["errors"][0]["field"].startswith(field)
    assert says in str(answer)
    assert tenant.ask("GET", "") == []


def test_a_secret_is_shown_once_and_to_be_read_nowhere_else(
    telling: Server, tenant: Tenant, receiver: Receiver
) -> None:
    key = {"idempotency-key": uuid4().hex}
    new = {"url": receiver.url, "events": ["*"]}
    made = data(tenant.person().post("/api/subscriptions", json=new, headers=key), 201)
    repeated = data(tenant.person().post("/api/subscriptions", json=new, headers=key), 201)
    rotated = tenant.ask("POST", f"/{made['id']}/rotate", {}, 201)
    tenant.hand_over()
    receiver.next()
    tenant.delivery(made, state="delivered")

    assert (repeated["id"], repeated["secret"]) == (made["id"], None)
    for secret in (made["secret"], rotated["secret"]):
        shown = secret.removeprefix("whsec_").rstrip("=")
        wanted = f"%{shown}%", f"%{shown.encode().hex()}%"
        tables = [row["table"] for row in sql(telling, COLUMNS)]
        held = 'SELECT 1 FROM "{}" t WHERE t::text LIKE $1 OR t::text LIKE $2 LIMIT 1'
        assert [table for table in tables if sql(telling, held.format(table), *wanted)] == []
        assert shown not in str(telling.security_events())
        assert shown not in str(telling.log_lines())
        assert shown not in str(tenant.get(made))


def test_a_change_is_made_to_the_version_that_was_read(tenant: Tenant, receiver: Receiver) -> None:
    subscription = tenant.subscribe(receiver)
    path = f"/api/subscriptions/{subscription['id']}"

    changed = tenant.person().patch(
        path, json={"events": ["task.*"], "description": "ours"}, headers={"if-match": '"1"'}
    )
    late = tenant.person().patch(path, json={"events": ["*"]}, headers={"if-match": '"1"'})

    assert (data(changed)["events"], data(changed)["version"]) == (["task.*"], 2)
    assert late.json()["code"] == "PRECONDITION_FAILED"


def test_another_tenant_finds_neither_a_subscription_nor_its_deliveries(
    telling: Server, tenant: Tenant, receiver: Receiver
) -> None:
    subscription = tenant.subscribe(receiver)
    delivery = tenant.ask("POST", f"/{subscription['id']}/test")
    rival = Tenant(telling)

    asked = [
        rival.person().get(f"/api/subscriptions/{subscription['id']}"),
        rival.person().get(f"/api/subscriptions/{subscription['id']}/deliveries"),
        rival.person().get(f"/api/deliveries/{delivery['id']}"),
        rival.person().post(f"/api/deliveries/{delivery['id']}/redeliver"),
        rival.person().post(f"/api/subscriptions/{subscription['id']}/test"),
        rival.person().delete(f"/api/subscriptions/{subscription['id']}"),
    ]

    assert [answer.status_code for answer in asked] == [404] * 6
    rival.close()


def test_changes_are_in_the_audit_trail_which_finds_a_subscription_that_was_altered(
    telling: Server, tenant: Tenant, receiver: Receiver
) -> None:
    subscription = tenant.subscribe(receiver)
    removed = tenant.subscribe(receiver)
    tenant.ask("DELETE", f"/{removed['id']}")

    def verify() -> dict[str, Any]:
        report = data(tenant.person().post("/api/audit/verify", json={}))
        return report if report["unsealed"] == 0 else {}

    honest = wait_for(verify, "the seals")
    forged = "UPDATE subscriptions SET {} WHERE id = $1::text::uuid RETURNING id"
    edits = {"url": "'https://rival.example'", "events": "ARRAY['*']", "state": "'paused'", "created_by": "'eve'",
             "caller": "caller || '{\"subject\": \"eve\"}'"}  # fmt: skip
    sql(telling, forged.format("events = ARRAY['task.*']"), subscription["id"])
    sql(telling, forged.format(", ".join(f"{name} = {value}" for name, value in edits.items() if name != "events")),
        subscription["id"])  # fmt: skip

    found = wait_for(verify, "the seals")["disagreements"]

    recorded = data(tenant.person().get("/api/audit", params={"resource": subscription["id"]}))
    assert [record["operation"] for record in recorded] == ["subscription.create"]
    assert honest["ok"], honest
    assert {(one["table"], one["id"], one["column"]) for one in found} == {
        ("subscriptions", subscription["id"], name) for name in edits
    }


def test_the_command_line_has_them(tenant: Tenant, receiver: Receiver) -> None:
    environment = {"DRAGOMAN_TOKEN": tenant.server.token(tenant=tenant.slug)}
    made = tenant.server.cli(
        "subscription", "create", "--url", receiver.url, "--events", "task.*", environment=environment
    )
    tried = tenant.server.cli("subscription", "list", environment=environment)

    assert made.returncode == 0, made.stderr
    assert "whsec_" in made.stdout
    assert "task.*" in tried.stdout
    wait_for(lambda: tenant.ask("GET", ""), "the subscription")
