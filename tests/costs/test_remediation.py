"""Recommendations from the bill to the saving: decided by people, carried out by a worker, checked by later bills."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.backstage import sql
from tests.costs.spend import Bills, Json, days, every, settled
from tests.doors.rest.calling import data, fields, fresh, new_tenant, problem
from tests.harness import InProcess, Server, wait_for
from tests.kit.web import free_port
from tests.services.tasks.envelopes import envelope
from tests.services.tasks.test_remote_mcp import answers

PROGRAM = str(Path(__file__).with_name("remediation_worker.py"))
YESTERDAY = datetime.now(UTC).date() - timedelta(days=1)
FIRST = YESTERDAY - timedelta(days=34)
IDLE = {"x_CpuP95": "1.5", "x_MemoryP95": "8", "x_NetworkGB": "0.01", "SkuPriceDetails": '{"InstanceType":"m7g.large"}'}
SNAPSHOT: Json = {
    "resource": "snap-1",
    "type": "Snapshot",
    "unit": "GB-Days",
    "amount": 2,
    "extra": {"x_CreatedAt": "2025-01-01"},
}
IN_TEST: Json = {"resource": "i-test", "amount": 10, "tags": {"environment": "test"}, "extra": IDLE}
IN_PRODUCTION: Json = {"resource": "i-prod", "amount": 30, "tags": {"environment": "production"}, "extra": IDLE}
# Never a finding, and there on every day: bills go on.
OTHER: Json = {"resource": "i-busy", "amount": 50, "extra": {"x_CpuP95": "80", "x_MemoryP95": "80"}}


@pytest.fixture(scope="module")
def home() -> Iterator[Server]:
    with InProcess({"DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1"}) as running:
        yield running


@dataclass
class Tenant:
    """A tenant with bills in which three things could be saved."""

    server: Server
    slug: str
    bills: Bills

    def person(self, role: str, user: str) -> httpx.Client:
        return self.server.client(self.server.token(role=role, tenant=self.slug, user=user))

    def found(self, client: httpx.Client, resource: str) -> Json:
        """Return the recommendation about a resource, once there is one."""

        def look() -> Json | None:
            return next((one for one in every(client, "/api/recommendations") if one["resource_id"] == resource), None)

        return wait_for(look, f"a recommendation about {resource}")

    def becomes(self, client: httpx.Client, recommendation_id: str, **expected: Any) -> Json:
        def look() -> Json | None:
            view = data(client.get(f"/api/recommendations/{recommendation_id}"))
            return view if expected.items() <= view.items() else None

        return wait_for(look, f"{expected}")

    def show(self, *rows: Json, last: int = 35) -> None:
        """Bill these on every day until yesterday; `last` days in all."""
        self.bills.write(
            [line for row in (*rows, OTHER) for line in days(FIRST + timedelta(days=35 - last), last, **row)]
        )


@pytest.fixture
def tenant(home: Server) -> Tenant:
    made = new_tenant(home)
    bills = Bills(home, made["id"])
    tenant = Tenant(home, made["slug"], bills)
    tenant.show(SNAPSHOT, IN_TEST, IN_PRODUCTION)
    return tenant


@pytest.fixture
def operator(tenant: Tenant) -> Iterator[httpx.Client]:
    with tenant.person("operator", "olga") as client:
        yield client


@pytest.fixture
def admin(tenant: Tenant) -> Iterator[httpx.Client]:
    with tenant.person("org_admin", "anna") as client:
        yield client


@pytest.fixture
def worker(admin: httpx.Client, tmp_path: Path) -> Iterator[Callable[[], list[Json]]]:
    """A worker of the tenant that carries recommendations out; it says what it was given."""
    port, traces = free_port(), tmp_path / "traces"
    with subprocess.Popen([sys.executable, PROGRAM, str(port), str(traces)]) as process:
        try:
            wait_for(lambda: answers(port), "the MCP server")
            registered = {"name": "ops", "kind": "mcp", "url": f"http://127.0.0.1:{port}/mcp"}
            data(admin.post("/api/workers", json=registered | {"actions": [{"action": "remediation.execute"}]}), 201)
            data(admin.post("/api/capabilities/remediation.execute/allow", json={"worker": "mcp:ops", "prefer": True}))
            yield lambda: [json.loads(line) for line in traces.read_text().splitlines()] if traces.exists() else []
        finally:
            process.kill()


def decide(client: httpx.Client, recommendation: Json, decision: str = "approve", **given: Any) -> httpx.Response:
    return client.post(f"/api/recommendations/{recommendation['id']}/decide", json={"decision": decision, **given})


def execute(client: httpx.Client, recommendation: Json, **given: Any) -> httpx.Response:
    return client.post(f"/api/recommendations/{recommendation['id']}/execute", json=given)


def reason(response: httpx.Response, code: str = "CONFLICT") -> str:
    return problem(response, 409, code)["details"]["reason"]


@pytest.mark.req("GW-007")
def test_recommendations_are_listed_with_filters_and_pages_the_largest_saving_first(
    tenant: Tenant, operator: httpx.Client
) -> None:
    tenant.found(operator, "i-prod")

    listed = every(operator, "/api/recommendations")
    pages = operator.get("/api/recommendations", params={"limit": 2})
    rest = operator.get("/api/recommendations", params={"limit": 2, "cursor": pages.json()["meta"]["nextCursor"]})

    resources = [one["resource_id"] for one in listed if one["resource_id"]]
    assert resources == ["i-prod", "i-test", "snap-1"]
    assert [one["id"] for one in (*pages.json()["data"], *rest.json()["data"])] == [one["id"] for one in listed[:4]]
    assert [one["saving_monthly"] for one in listed if one["resource_id"]] == ["900", "300", "60"]
    assert {one["resource_id"] for one in every(operator, "/api/recommendations", type="terminate")} == set(resources)
    assert every(operator, "/api/recommendations", status="approved") == []
    assert fields(operator.get("/api/recommendations", params={"status": "open"})) == ["status"]
    assert fields(operator.get("/api/recommendations", params={"type": "delete"})) == ["type"]


def test_a_recommendation_shows_the_rows_that_it_rests_on(tenant: Tenant, operator: httpx.Client) -> None:
    found = tenant.found(operator, "i-test")

    view = data(operator.get(f"/api/recommendations/{found['id']}"))

    rows = view["evidence"]["rows"]
    assert len(rows) == view["evidence"]["days"] == 30
    named = "SELECT resource_id, day::text, effective::text FROM cost_rows WHERE slice_id = $1 AND line = $2"
    stored = sql(
        tenant.server, named,
        rows[-1]["slice_id"], rows[-1]["line"],
    )  # fmt: skip
    assert [tuple(row) for row in stored] == [("i-test", rows[-1]["day"], rows[-1]["amount"])]
    assert view["evidence"]["facts"]["cpu_p95_max"] == 1.5
    assert (view["confidence"], view["risk"]) == ("high", "medium")


def test_without_a_worker_the_result_is_a_plan_and_the_recommendation_stays_approved(
    tenant: Tenant, operator: httpx.Client
) -> None:
    found = tenant.found(operator, "snap-1")
    data(decide(operator, found, reason="agreed"))

    started = data(execute(operator, found))
    view = settled(operator, found["id"])

    assert (started["performed_by"], started["waits_for"]) == ("plan", [])
    assert (view["status"], view["executed_at"], view["outcome"]) == ("approved", None, None)
    assert view["plan"]["executed"] is False
    assert view["plan"]["notice"].startswith("NOT EXECUTED")
    assert "aws ec2 delete-snapshot --region eu-west-1 --snapshot-id snap-1" in json.dumps(view["plan"]["steps"])
    # A plan may be made again, by a task of its own.
    assert data(execute(operator, found))["task_id"] != started["task_id"]


@pytest.mark.req("GW-007")
def test_an_approved_recommendation_is_carried_out_by_the_worker_and_later_bills_show_the_saving(
    tenant: Tenant, operator: httpx.Client, worker: Callable[[], list[Json]]
) -> None:
    found = tenant.found(operator, "i-test")
    data(decide(operator, found))

    started = data(execute(operator, found))
    view = settled(operator, found["id"])
    (given,) = worker()
    early = data(operator.get("/api/recommendations/savings"))

    assert (started["performed_by"], started["risk"]) == ("worker", "medium")
    assert (view["status"], view["executed_by"]) == ("executed", "mcp:ops")
    assert view["outcome"] == {"executed": True, "ended": "i-test"}
    assert given["input"]["resource_id"] == "i-test"
    assert given["resource"]["sha256"] == view["content_sha256"]
    assert [(one["state"], one["days"]) for one in early["executed"]] == [("too_early", 0)]

    # Ten days later: the bills go on, and the machine is no more in them.
    sql(
        tenant.server,
        "UPDATE cost_recommendations SET executed_at = executed_at - interval '11 days' WHERE id = $1",
        found["id"],
    )
    gone = days(FIRST, 25, **IN_TEST)
    tenant.bills.write([*gone, *(line for row in (SNAPSHOT, OTHER) for line in days(FIRST, 35, **row))])
    report = data(operator.get("/api/recommendations/savings"))

    (measured,) = report["executed"]
    assert (measured["state"], measured["days"], measured["before_daily"], measured["after_daily"]) == (
        "measured",
        10,
        "10",
        "0",
    )
    assert (measured["realised_to_date"], measured["realised_monthly"], measured["estimated_monthly"]) == (
        "100",
        "300",
        "300",
    )
    assert measured["method"].startswith("cost a day")
    (total,) = report["totals"]
    assert (total["currency"], total["executed"], total["realised"], total["measured_count"]) == (
        "USD",
        "300",
        "300",
        1,
    )


def test_what_is_executed_is_not_recommended_again_by_the_bills_of_the_days_before(
    tenant: Tenant, operator: httpx.Client, worker: Callable[[], list[Json]]
) -> None:
    found = tenant.found(operator, "i-test")
    data(decide(operator, found))
    data(execute(operator, found))
    assert settled(operator, found["id"])["status"] == "executed"

    tenant.show(IN_TEST)  # the snapshot is gone, and the machine is not yet
    tenant.becomes(operator, tenant.found(operator, "snap-1")["id"], status="expired")

    about = [one for one in every(operator, "/api/recommendations") if one["resource_id"] == "i-test"]
    assert [one["status"] for one in about] == ["executed"]


def test_high_risk_waits_for_an_org_admin_who_did_not_ask_and_sees_what_would_be_done(
    tenant: Tenant, operator: httpx.Client, admin: httpx.Client, worker: Callable[[], list[Json]]
) -> None:
    found = tenant.found(operator, "i-prod")
    data(decide(operator, found))

    started = data(execute(operator, found))
    (approval,) = started["waits_for"]
    with tenant.person("operator", "otto") as other:
        refused = other.post(f"/api/approvals/{approval}/decide", json={"decision": "approve"})
    shown = data(admin.get(f"/api/approvals/{approval}"))

    assert (started["risk"], started["approvers"], started["state"]) == ("high", ["org_admin"], "input_required")
    assert problem(refused, 403, "APPROVAL_RESERVED")
    assert worker() == []
    assert (shown["facts"], shown["resource"]["version"]) == ({"risk": "high"}, "1")
    assert shown["resource"]["sha256"] == shown["shows"]["recommendation"]["content_sha256"]
    assert shown["shows"]["recommendation"]["evidence"]["days"] == 30
    assert "terminate-instances" in json.dumps(shown["shows"]["steps"])

    data(admin.post(f"/api/approvals/{approval}/decide", json={"decision": "approve", "digest": shown["digest"]}))
    assert settled(operator, found["id"])["status"] == "executed"
    assert [one["input"]["resource_id"] for one in worker()] == ["i-prod"]


def test_an_approval_is_stale_when_the_recommendation_has_changed(
    tenant: Tenant, operator: httpx.Client, admin: httpx.Client
) -> None:
    found = tenant.found(operator, "i-prod")
    data(decide(operator, found))
    (approval,) = data(execute(operator, found))["waits_for"]

    sql(
        tenant.server,
        "UPDATE cost_recommendations SET version = 2, content_sha256 = 'other' WHERE id = $1",
        found["id"],
    )
    decided = admin.post(f"/api/approvals/{approval}/decide", json={"decision": "approve"})
    view = settled(operator, found["id"])

    assert reason(decided, "APPROVAL_STALE") == "TARGET_MOVED"
    assert (view["status"], view["outcome"]) == ("approved", None)
    assert view["last_error"]["state"] in ("failed", "rejected")


def test_a_denied_approval_leaves_the_recommendation_approved_with_the_reason(
    tenant: Tenant, operator: httpx.Client, admin: httpx.Client
) -> None:
    found = tenant.found(operator, "i-prod")
    data(decide(operator, found))
    (approval,) = data(execute(operator, found))["waits_for"]
    assert reason(execute(operator, found)) == "UNDER_WAY"
    assert reason(decide(operator, found, "dismiss", reason="too late")) == "UNDER_WAY"

    data(admin.post(f"/api/approvals/{approval}/decide", json={"decision": "deny", "reason": "it is the standby"}))
    view = settled(operator, found["id"])

    assert (view["status"], view["last_error"]["code"]) == ("approved", "APPROVAL_DENIED")


def test_what_is_decided_is_not_decided_again(tenant: Tenant, operator: httpx.Client) -> None:
    low, medium = tenant.found(operator, "snap-1"), tenant.found(operator, "i-test")

    assert data(decide(operator, low))["approved_by"] == "olga"
    assert reason(decide(operator, low)) == "WRONG_STATUS"
    assert fields(decide(operator, medium, "dismiss")) == ["reason"]
    assert fields(decide(operator, medium, "maybe")) == ["decision"]
    assert data(decide(operator, medium, "dismiss", reason="needed"))["status"] == "dismissed"
    assert reason(decide(operator, medium)) == "WRONG_STATUS"
    assert reason(execute(operator, medium)) == "WRONG_STATUS"


def test_one_that_is_pending_expired_or_changed_is_not_executed(tenant: Tenant, operator: httpx.Client) -> None:
    found = tenant.found(operator, "snap-1")
    assert reason(execute(operator, found)) == "WRONG_STATUS"
    data(decide(operator, found))
    path = f"/api/recommendations/{found['id']}/execute"
    stale = operator.post(path, json={}, headers={"If-Match": '"7"'})
    sql(tenant.server, "UPDATE cost_recommendations SET expires_at = now() WHERE id = $1", found["id"])

    refused = execute(operator, found)

    assert problem(stale, 412, "PRECONDITION_FAILED")
    assert problem(refused, 409, "CONFLICT")["details"]["status"] == "expired"
    assert [one["id"] for one in every(operator, "/api/recommendations", status="expired")] == [found["id"]]


def test_another_tenants_recommendation_looks_missing(tenant: Tenant, operator: httpx.Client, home: Server) -> None:
    found = tenant.found(operator, "snap-1")
    with home.client(home.token(tenant=new_tenant(home)["slug"])) as stranger:
        answers = [
            stranger.get(f"/api/recommendations/{found['id']}"),
            decide(stranger, found),
            execute(stranger, found),
        ]

    assert [problem(answer, 404, "NOT_FOUND")["status"] for answer in answers] == [404] * 3


def test_a_program_approves_low_risk_and_nothing_more(
    tenant: Tenant, operator: httpx.Client, admin: httpx.Client
) -> None:
    low, medium = tenant.found(operator, "snap-1"), tenant.found(operator, "i-test")
    key = data(admin.post("/api/keys", json={"name": fresh(), "role": "operator"}), 201)["secret"]
    with tenant.server.client(key) as program:
        refused, taken = decide(program, medium), decide(program, low)

    assert problem(refused, 403, "UNAUTHORIZED")["details"]["reason"] == "PEOPLE_ONLY"
    assert data(taken)["status"] == "approved"


def test_the_action_is_handed_over_by_recommendation_execute_alone(tenant: Tenant, operator: httpx.Client) -> None:
    found = tenant.found(operator, "i-prod")
    data(decide(operator, found))
    given = envelope("remediation.execute", {"risk": "low"}, actor={"id": "olga", "type": "human"},
                     resource={"type": "recommendation", "id": found["id"]})  # fmt: skip
    with tenant.server.client(tenant.server.token(role="agent", tenant=tenant.slug, user="bot")) as agent:
        by_agent = agent.post("/api/tasks", json={**given, "actor": {"id": "bot", "type": "agent"}})
    by_operator = operator.post("/api/tasks", json=given)

    assert problem(by_agent, 403, "UNAUTHORIZED")["details"]["permission"] == "write:remediation"
    assert reason(by_operator) == "USE_RECOMMENDATION_EXECUTE"


def test_the_same_finding_is_one_recommendation_that_expires_and_comes_back_with_its_evidence(
    tenant: Tenant, operator: httpx.Client
) -> None:
    found = tenant.found(operator, "snap-1")

    tenant.show({**SNAPSHOT, "amount": 2.1}, IN_TEST, IN_PRODUCTION)
    moved = tenant.becomes(operator, found["id"], saving_monthly="63")
    tenant.show(IN_TEST, IN_PRODUCTION)
    gone = tenant.becomes(operator, found["id"], status="expired")
    tenant.show(SNAPSHOT, IN_TEST, IN_PRODUCTION)
    back = tenant.becomes(operator, found["id"], status="pending")

    assert [one["version"] for one in (moved, gone, back)] == [1, 1, 2]


def test_a_dismissed_one_comes_back_only_when_it_has_changed_materially(tenant: Tenant, operator: httpx.Client) -> None:
    found = tenant.found(operator, "snap-1")
    data(decide(operator, found, "dismiss", reason="kept for the auditors"))

    tenant.show({**SNAPSHOT, "amount": 2.2}, IN_TEST, IN_PRODUCTION)
    quiet = tenant.becomes(operator, found["id"], saving_monthly="66")
    tenant.show({**SNAPSHOT, "amount": 4}, IN_TEST, IN_PRODUCTION)
    back = tenant.becomes(operator, found["id"], saving_monthly="120")

    assert (quiet["status"], quiet["version"]) == ("dismissed", 1)
    assert (back["status"], back["version"], back["decided_by"]) == ("pending", 2, None)


def test_a_change_that_matters_takes_an_approval_back(tenant: Tenant, operator: httpx.Client) -> None:
    found = tenant.found(operator, "i-test")
    data(decide(operator, found))

    tenant.show(SNAPSHOT, {**IN_TEST, "tags": {"environment": "production"}}, IN_PRODUCTION)
    view = tenant.becomes(operator, found["id"], risk="high")

    assert (view["status"], view["version"], view["approved_by"]) == ("pending", 2, None)


def test_thresholds_and_exclusions_of_a_tenant_hold_from_the_next_analysis(
    tenant: Tenant, operator: httpx.Client
) -> None:
    found = tenant.found(operator, "snap-1")

    def configure(**given: Any) -> httpx.Response:
        return operator.patch("/api/recommendation-rules/old_snapshot", json=given)

    wrong = [
        configure(thresholds={"older_than_days": "90"}),
        configure(thresholds={"older_than_days": 0}),
        configure(thresholds={"older_then_days": 90}),
        configure(exclusions={"accounts": ["mine"]}),
    ]
    set_ = data(configure(thresholds={"older_than_days": 100_0}, exclusions={"resources": ["snap-*"], "tags": []}))
    tenant.becomes(operator, found["id"], status="expired")

    assert [fields(one) for one in wrong] == [
        ["thresholds.older_than_days"], ["thresholds.older_than_days"], ["thresholds.older_then_days"],
        ["exclusions.accounts.0"],
    ]  # fmt: skip
    assert (set_["thresholds"]["older_than_days"], set_["version"], set_["updated_by"]) == (1000, 1, "olga")
    assert fields(operator.patch("/api/recommendation-rules/nothing", json={})) == ["rule"]
    listed = data(operator.get("/api/recommendation-rules"))["items"]
    assert len(listed) == 9
    assert all(one["thresholds"].keys() == one["threshold_schema"]["properties"].keys() for one in listed)


DECISIONS = "cost_recommendation_decisions"
# What a forger writes.
HELD = {
    "version": 7, "content_sha256": "0" * 64, "saving": Decimal("0.5"), "currency": "XXX", "decision": "dismiss",
    "reason": "forged", "decided_by": "mallory",
}  # fmt: skip


def test_decisions_are_part_of_the_comparison_with_the_audit_trail(
    tenant: Tenant, operator: httpx.Client, admin: httpx.Client
) -> None:
    found = tenant.found(operator, "snap-1")
    data(decide(operator, found, reason="agreed"))
    ended_well = data(admin.post("/api/audit/verify", json={}))

    named: list[str] = []
    for column, forged in HELD.items():
        where = "WHERE recommendation_id = $1"
        [[before]] = sql(tenant.server, f"SELECT {column} FROM {DECISIONS} {where}", found["id"])
        sql(tenant.server, f"UPDATE {DECISIONS} SET {column} = $2 {where}", found["id"], forged)
        broken = data(admin.post("/api/audit/verify", json={}))
        sql(tenant.server, f"UPDATE {DECISIONS} SET {column} = $2 {where}", found["id"], before)
        named += [one["column"] for one in broken["disagreements"] if one["table"] == DECISIONS]

    assert (ended_well["ok"], ended_well["disagreements"]) == (True, [])
    assert named == list(HELD)
