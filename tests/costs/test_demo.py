"""The demo of costs: what it loads, what is found in it, and how it goes again."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import httpx
import pytest

from dragoman_costs.synthetic.building import build_estate
from dragoman_costs.synthetic.catalogue import GCP
from dragoman_costs.synthetic.spend import list_charges
from tests.backstage import sql
from tests.costs.exports import imported, sums_of, totals, written
from tests.costs.spend import Bills, Json, days, every, load_demo
from tests.doors.rest.calling import data, fields, new_tenant, problem
from tests.harness import InProcess, Server, wait_for

SEED, DAYS = 11, 60
YESTERDAY = datetime.now(UTC).date() - timedelta(days=1)


@pytest.fixture(scope="module")
def home() -> Iterator[Server]:
    with InProcess() as running:
        yield running


@pytest.fixture(scope="module")
def demo(home: Server) -> Iterator[tuple[httpx.Client, Json]]:
    """A tenant with the demo, and what loading it said."""
    with home.client(home.token(tenant=new_tenant(home)["slug"], role="operator")) as client:
        yield client, load_demo(client, seed=SEED)


@pytest.mark.req("GW-007")
def test_the_demo_is_labelled_synthetic_and_has_anomalies_and_recommendations_at_once(
    demo: tuple[httpx.Client, Json],
) -> None:
    client, loaded = demo

    accounts = every(client, "/api/cloud-accounts")
    recommended = every(client, "/api/recommendations", status="pending")

    assert {one["provider"] for one in accounts} == {"aws", "azure", "gcp", "kubernetes"}
    assert all(one["synthetic"] for one in accounts)
    assert loaded["rows"] > 20_000
    assert loaded["recommendations"] == len(recommended)
    assert {one["type"] for one in recommended} == {"rightsize", "terminate", "reserve", "schedule", "migrate"}
    assert len(every(client, "/api/anomalies")) == loaded["anomalies"] > 0


def test_every_rule_finds_the_waste_that_was_put_in_and_hardly_anything_else(demo: tuple[httpx.Client, Json]) -> None:
    client, _ = demo
    estate = build_estate(SEED, until=YESTERDAY, days=DAYS)
    wanted = {(one.rule, one.resource_id or f"{one.pool[1]}/{one.pool[2]}" if one.pool else one.resource_id)
              for one in estate.waste}  # fmt: skip

    listed = every(client, "/api/recommendations")
    found = {(one["rule"], one["resource_id"] or f"{one['service']}/{one['region']}") for one in listed}

    for rule in {name for name, _ in wanted}:
        truth, told = ({what for name, what in group if name == rule} for group in (wanted, found))
        assert len(told & truth) >= 0.8 * len(truth), (rule, truth - told)
        assert len(told & truth) >= 0.8 * len(told), (rule, told - truth)
    assert not {what for _, what in found} & set(estate.decoys)


def test_savings_are_summed_by_currency_and_never_across(demo: tuple[httpx.Client, Json]) -> None:
    client, _ = demo
    listed = every(client, "/api/recommendations", status="pending")

    totals = {one["currency"]: one for one in data(client.get("/api/recommendations/savings"))["totals"]}

    assert totals.keys() == {"USD", "EUR"}
    for currency, total in totals.items():
        own = [Decimal(one["saving_monthly"]) for one in listed if one["currency"] == currency]
        assert (Decimal(total["found"]), total["found_count"]) == (sum(own), len(own))
        assert (total["realised"], total["measured_count"]) == ("0", 0)


@pytest.mark.req("GW-007")
def test_an_anomaly_names_causes_that_add_up_to_its_excess(demo: tuple[httpx.Client, Json]) -> None:
    client, _ = demo

    for anomaly in every(client, "/api/anomalies"):
        assert Decimal(anomaly["actual"]) - Decimal(anomaly["expected"]) == Decimal(anomaly["excess"])
        for dimension in ("region", "sub_account", "resource"):
            causes = [one for one in anomaly["causes"] if one["dimension"] == dimension]
            for column in ("expected", "actual", "excess"):
                assert sum(Decimal(one[column]) for one in causes) == Decimal(anomaly[column]), (anomaly, dimension)


def test_the_resource_that_caused_an_anomaly_is_named_first(demo: tuple[httpx.Client, Json]) -> None:
    client, _ = demo
    estate = build_estate(SEED, until=YESTERDAY, days=DAYS)
    truth = {
        (one.service, one.first.isoformat()): one for one in estate.surprises if one.kind in ("spike", "intrusion")
    }
    found = [one for one in every(client, "/api/anomalies") if (one["service"], one["day"]) in truth]

    named = {
        one["id"]: next(cause["name"] for cause in one["causes"] if cause["dimension"] == "resource") for one in found
    }

    assert found
    assert named == {one["id"]: truth[one["service"], one["day"]].resource_id for one in found}


def test_loading_again_changes_nothing_and_removing_takes_all_away(home: Server) -> None:
    with home.client(home.token(tenant=(made := new_tenant(home))["slug"])) as client:
        first = load_demo(client, seed=3)
        again = load_demo(client, seed=3)
        ids = {one["id"] for one in every(client, "/api/recommendations")}
        removed = load_demo(client, remove=True)

        tables = ("cost_slices", "cost_rows", "cost_services_daily", "cost_totals_daily", "cost_daily",
                  "cost_tags_daily", "cost_resources_daily", "cost_anomalies", "cost_recommendations")  # fmt: skip
        accounts = every(client, "/api/cloud-accounts")
        left = {
            table: sql(home, f"SELECT count(*) FROM {table} WHERE tenant_id = $1", made["id"])[0][0] for table in tables
        }

    assert {**again, "anomalies": 0} == {**first, "anomalies": 0}
    assert len(ids) == first["recommendations"]
    assert (removed, accounts) == ({"removed_accounts": 4}, [])
    assert {table: count for table, count in left.items() if count} == {}


def test_the_demo_does_not_touch_an_account_that_is_not_its_own(home: Server) -> None:
    with home.client(home.token(tenant=new_tenant(home)["slug"])) as client:
        own = {"provider": "aws", "identifier": "100200300400", "name": "Ours"}
        data(client.post("/api/cloud-accounts", json=own), 201)
        started = data(client.post("/api/costs/demo", json={"months": 2}), 202)

        task = wait_for(
            lambda: (found := data(client.get(f"/api/tasks/{started['task_id']}")))["state"] == "failed" and found,
            "failure",
        )

    assert task["error"]["details"]["reason"] == "ACCOUNT_NOT_SYNTHETIC"


@pytest.mark.parametrize("given", [{"months": 0}, {"months": 13}, {"months": "six"}, {"seed": -1}, {"rows": 5}])
def test_a_wrong_demo_is_refused(home: Server, given: Json) -> None:
    with home.client(home.token()) as client:
        assert fields(client.post("/api/costs/demo", json=given)) == list(given)


def test_an_anomaly_is_decided_once(demo: tuple[httpx.Client, Json]) -> None:
    client, _ = demo
    first, second = every(client, "/api/anomalies")[:2]

    def decide(anomaly: Json, decision: str, **given: Any) -> httpx.Response:
        return client.post(f"/api/anomalies/{anomaly['id']}/decide", json={"decision": decision, **given})

    seen = data(decide(first, "acknowledge"))
    done = data(decide(first, "resolve", reason="fixed"))
    again = decide(first, "dismiss", reason="no")

    assert (seen["status"], done["status"], done["reason"]) == ("acknowledged", "resolved", "fixed")
    assert problem(again, 409, "CONFLICT")["details"] == {"reason": "ANOMALY_DECIDED", "status": "resolved"}
    assert fields(decide(second, "dismiss")) == ["reason"]
    assert fields(decide(second, "forget")) == ["decision"]
    assert [one["id"] for one in every(client, "/api/anomalies", status="resolved")] == [first["id"]]


def test_anomalies_are_filtered_and_paged_the_newest_day_first(demo: tuple[httpx.Client, Json]) -> None:
    client, _ = demo
    everything = every(client, "/api/anomalies")
    one = everything[0]

    pages = every(client, "/api/anomalies", limit=2)
    same = every(client, "/api/anomalies", service=one["service"], account_id=one["account_id"], since=one["day"])
    dear = every(client, "/api/anomalies", least_excess="50")

    assert [each["day"] for each in everything] == sorted((each["day"] for each in everything), reverse=True)
    assert pages == everything
    assert one in same
    assert dear == [each for each in everything if Decimal(each["total_excess"]) >= 50]
    assert fields(client.get("/api/anomalies", params={"status": "loud"})) == ["status"]
    assert fields(client.get("/api/anomalies", params={"least_excess": "lots"})) == ["least_excess"]


def test_another_tenants_anomaly_looks_missing(demo: tuple[httpx.Client, Json], home: Server) -> None:
    client, _ = demo
    foreign = every(client, "/api/anomalies")[0]["id"]
    with home.client(home.token(tenant=new_tenant(home)["slug"])) as stranger:
        problem(stranger.get(f"/api/anomalies/{foreign}"), 404, "NOT_FOUND")
        problem(stranger.post(f"/api/anomalies/{foreign}/decide", json={"decision": "resolve"}), 404, "NOT_FOUND")
        problem(stranger.get(f"/api/anomalies/{uuid4()}"), 404, "NOT_FOUND")
        assert every(stranger, "/api/anomalies") == []


def test_bills_are_analysed_after_an_import_and_an_event_tells_of_a_new_anomaly_once(home: Server) -> None:
    made = new_tenant(home)
    bills, first = Bills(home, made["id"]), YESTERDAY - timedelta(days=59)
    usual = days(first, 60, resource="i-1", amount=100, service="Database")
    usual[58]["amount"] = 260
    with home.client(home.token(tenant=made["slug"])) as client:
        wanted = {"url": "https://hooks.example.com/costs", "events": ["cost.anomaly"]}
        data(client.post("/api/subscriptions", json=wanted), 201)
        bills.write(usual)
        (anomaly,) = wait_for(lambda: every(client, "/api/anomalies"), "an anomaly")
        bills.write([*usual, *days(first, 60, resource="i-2", amount=0.001, service="Queue")])
        done = "SELECT 1 FROM cost_analyses WHERE tenant_id = $1 AND due_at IS NULL AND claimed_at IS NULL"
        wait_for(lambda: sql(home, done, made["id"]), "the second analysis")
        (same,) = every(client, "/api/anomalies")

    told = sql(home, "SELECT subject FROM subscription_deliveries WHERE tenant_id = $1", made["id"])
    assert (anomaly["shape"], anomaly["expected"], anomaly["actual"], anomaly["excess"]) == (
        "spike",
        "100",
        "260",
        "160",
    )
    assert same["id"] == anomaly["id"]
    assert [row["subject"] for row in told] == [anomaly["id"]]


def test_an_anomaly_that_replaced_bills_do_not_have_is_resolved(home: Server) -> None:
    made = new_tenant(home)
    bills, first = Bills(home, made["id"]), YESTERDAY - timedelta(days=59)
    usual = days(first, 60, resource="i-1", amount=100, service="Database")
    with home.client(home.token(tenant=made["slug"])) as client:
        bills.write([*usual[:50], {**usual[50], "amount": 300}, *usual[51:]])
        (anomaly,) = wait_for(lambda: every(client, "/api/anomalies"), "an anomaly")
        bills.write(usual)
        (resolved,) = wait_for(lambda: every(client, "/api/anomalies", status="resolved"), "that it is resolved")

    assert (resolved["id"], resolved["decided_by"]) == (anomaly["id"], "dragoman")


def test_the_dashboard_has_what_needs_attention(demo: tuple[httpx.Client, Json]) -> None:
    client, _ = demo
    needing = [one for one in every(client, "/api/anomalies") if one["status"] in ("open", "acknowledged")]

    anomalies = data(client.get("/api/dashboard/anomalies", params={"limit": 3}))
    savings = data(client.get("/api/dashboard/recommendations", params={"limit": 3}))

    assert anomalies["items"] == needing[:3]
    assert sum(one["open"] for one in anomalies["totals"]) == len(needing)
    assert savings["items"] == every(client, "/api/recommendations", status="pending")[:3]
    assert savings["totals"] == data(client.get("/api/recommendations/savings"))["totals"]
    assert fields(client.get("/api/dashboard/anomalies", params={"limit": 0})) == ["limit"]


@pytest.mark.req("GW-008")
def test_the_whole_page_has_these_parts_too_for_those_who_may_see_them(
    home: Server, demo: tuple[httpx.Client, Json]
) -> None:
    client, _ = demo
    tenant = data(client.get("/api/me"))["tenant"]
    narrow = home.token(tenant=tenant, role="operator", scopes=["read:costs"])

    page = data(client.get("/api/dashboard"))
    with home.client(narrow) as holder:
        less = data(holder.get("/api/dashboard"))

    assert page["savings"] == data(client.get("/api/dashboard/recommendations", params={"limit": 5}))
    shown = data(client.get("/api/dashboard/anomalies", params={"limit": 5, "end_date": page["period"]["end_date"]}))
    assert page["anomalies"] == shown
    assert page["anomalies"]["items"] != []
    assert (less["savings"], less["anomalies"]) == (None, page["anomalies"])
    assert [one for one in home.security_events() if one.get("permission") == "read:recommendations"] == []


@pytest.mark.req("GW-007")
def test_the_same_spend_as_an_imported_export_has_the_same_totals_and_recommendations(home: Server) -> None:
    """What is made up has the columns of FOCUS; usage stands in columns of the exporter's own."""
    estate = build_estate(SEED, until=YESTERDAY, days=DAYS)
    charges = list(list_charges(estate, GCP))
    names = list(dict.fromkeys(name for charge in charges for name in charge))
    content = written([{name: charge.get(name) or None for name in names} for charge in charges])
    with home.client(home.token(tenant=new_tenant(home)["slug"])) as client:
        new = {"provider": GCP.provider, "identifier": GCP.identifier, "name": GCP.name}
        account = data(client.post("/api/cloud-accounts", json=new), 201)["id"]
        report = imported(client, account, content)
        wanted = {one.rule for one in estate.waste if one.pool is None or one.pool[0] == GCP.identifier}
        found = wait_for(
            lambda: (
                (told := every(client, "/api/recommendations")) and {one["rule"] for one in told} == wanted and told
            ),
            "recommendations of every rule",
        )

    own = {one.id for one in estate.resources if one.account is GCP}
    truth = {(one.rule, one.resource_id) for one in estate.waste if one.resource_id in own}
    assert (report["row_count"], report["bad_count"]) == (len(charges), 0)
    assert sums_of(report) == totals(content)
    assert {(one["rule"], one["resource_id"]) for one in found if one["resource_id"]} == truth
