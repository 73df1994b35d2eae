"""Budgets: their state is what was spent and what is expected, and an alert is raised once and told to subscribers."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from dragoman_costs.budgets.evaluation import evaluate, span_of
from tests.backstage import add_tenant, sql
from tests.costs.billing import Row, Tenant, store, tenant_of
from tests.doors.rest.calling import data, fields, problem
from tests.harness import InProcess, Server, wait_for

pytestmark = pytest.mark.req("GW-008")
Json = dict[str, Any]
TODAY = datetime.now(UTC).date()
MONTH = TODAY.replace(day=1)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with InProcess() as running:
        yield running


@pytest.fixture
def tenant(server: Server) -> Tenant:
    """A tenant that spent 100 on the first day of the month."""
    made = tenant_of(server, add_tenant(server))
    store(server, made, [
        Row(MONTH, Decimal(60), tags={"team": "red"}),
        Row(MONTH, Decimal(30), service="Database", tags={"team": "blue"}, billed=Decimal(90)),
        Row(MONTH, Decimal(10), account="other"),
        Row(MONTH, Decimal(5), currency="EUR"),
        Row(MONTH - timedelta(days=1), Decimal(1000)),
    ])  # fmt: skip
    return made


def ask(server: Server, tenant: Tenant, method: str, path: str, body: Json | None = None, status: int = 200) -> Any:
    """Act as an operator of the tenant."""
    with server.client(server.token(role="operator", tenant=tenant.slug)) as client:
        return data(client.request(method, path, json=body), status)


def budget(**fields: Any) -> Json:
    return {"name": "All", "amount": "200", "currency": "USD", "forecast_thresholds": [], **fields}


@pytest.mark.parametrize(
    ("scope", "more", "actual"),
    [
        (None, {}, "100"),
        ({"provider": "AWS"}, {}, "100"),
        ({"service": "Database"}, {}, "30"),
        ({"service": "Database"}, {"measure": "billed"}, "90"),
        ({"tag_key": "team"}, {}, "90"),
        ({"tag_key": "team", "tag_value": "red"}, {}, "60"),
        ({"tag_key": "team", "service": "Database"}, {}, "30"),
        ({"service": "nothing"}, {}, "0"),
        (None, {"currency": "EUR"}, "5"),
    ],
)
def test_a_budget_counts_what_it_covers_in_its_currency(
    server: Server, tenant: Tenant, scope: Json | None, more: Json, actual: str
) -> None:
    made = ask(server, tenant, "POST", "/api/budgets", budget(scope=scope, **more), 201)
    shown = ask(server, tenant, "GET", f"/api/budgets/{made['id']}")

    assert shown["state"]["actual"] == made["state"]["actual"] == actual
    assert (shown["state"]["period_start"], made["version"]) == (MONTH.isoformat(), 1)


def test_a_budget_of_an_account_counts_that_account(server: Server, tenant: Tenant) -> None:
    scope = {"account_id": str(tenant.accounts["other"])}

    made = ask(server, tenant, "POST", "/api/budgets", budget(scope=scope), 201)

    assert (made["state"]["actual"], made["state"]["other_currencies"]) == ("10", [])


def test_each_threshold_raises_one_alert_in_a_period(server: Server, tenant: Tenant) -> None:
    made = ask(server, tenant, "POST", "/api/budgets", budget(amount="110", thresholds=[100, 90, 50]), 201)
    place = f"/api/budgets/{made['id']}"
    before = ask(server, tenant, "GET", "/api/budget-alerts")
    ask(server, tenant, "PATCH", place, {"name": "Renamed"})
    ask(server, tenant, "PATCH", place, {"amount": "100"})

    after = ask(server, tenant, "GET", f"/api/budget-alerts?budget_id={made['id']}")

    assert [(one["kind"], one["threshold"], one["reached"]) for one in before] == [
        ("actual", 90, "100"), ("actual", 50, "100")
    ]  # fmt: skip
    assert [(one["threshold"], one["budgeted"]) for one in after] == [(100, "100"), (90, "110"), (50, "110")]
    assert ask(server, tenant, "GET", place)["state"]["status"] == "exceeded"


def test_after_an_import_the_budgets_of_the_tenant_are_evaluated(server: Server, tenant: Tenant) -> None:
    made = ask(server, tenant, "POST", "/api/budgets", budget(amount="1000", thresholds=[100]), 201)
    rival = tenant_of(server, add_tenant(server))
    ask(server, rival, "POST", "/api/budgets", budget(amount="1"), 201)

    store(server, tenant, [Row(MONTH, Decimal(1500))])
    alerts = wait_for(lambda: ask(server, tenant, "GET", "/api/budget-alerts"), "the alert")

    assert [(one["budget_id"], one["reached"]) for one in alerts] == [(made["id"], "1510")]
    assert ask(server, rival, "GET", "/api/budget-alerts") == []
    (listed,) = ask(server, tenant, "GET", "/api/budgets")
    assert listed["state"]["status"] == "exceeded"
    with server.client(server.token(role="viewer", tenant=tenant.slug)) as client:
        (shown,) = data(client.get("/api/dashboard"))["budgets"]
    assert (shown["name"], shown["state"]["overrun"]) == ("All", "510")


def test_an_alert_is_acknowledged_by_a_person_once(server: Server, tenant: Tenant) -> None:
    ask(server, tenant, "POST", "/api/budgets", budget(thresholds=[50]), 201)
    (alert,) = ask(server, tenant, "GET", "/api/budget-alerts?open=true")
    place = f"/api/budget-alerts/{alert['id']}/acknowledge"
    with server.client(server.token(tenant=tenant.slug)) as admin:
        key = data(admin.post("/api/keys", json={"name": "robot", "role": "org_admin"}), 201)["secret"]
    with server.client(key) as robot:
        refused = problem(robot.post(place, json={}), 403, "UNAUTHORIZED")

    seen = ask(server, tenant, "POST", place, {})
    with server.client(server.token(tenant=tenant.slug, user="bob")) as bob:
        again = data(bob.post(place, json={}))

    assert refused["details"]["reason"] == "PEOPLE_ONLY"
    assert (seen["acknowledged_by"], again["acknowledged_by"]) == ("admin", "admin")
    assert ask(server, tenant, "GET", "/api/budget-alerts?open=true") == []


def test_a_budget_is_changed_from_the_version_that_was_read_and_removed_with_its_alerts(
    server: Server, tenant: Tenant
) -> None:
    made = ask(server, tenant, "POST", "/api/budgets", budget(thresholds=[50]), 201)
    place = f"/api/budgets/{made['id']}"
    with server.client(server.token(role="operator", tenant=tenant.slug)) as client:
        read = client.get(place)
        changed = client.patch(place, json={"period": "year"}, headers={"if-match": read.headers["etag"]})
        stale = client.patch(place, json={"period": "month"}, headers={"if-match": read.headers["etag"]})
        removed = client.delete(place)
        gone = client.get(place)

    assert (changed.json()["data"]["version"], stale.status_code) == (2, 412)
    assert (removed.status_code, gone.status_code) == (200, 404)
    assert ask(server, tenant, "GET", "/api/budget-alerts") == []


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"amount": "0"}, "amount"),
        ({"amount": "-5"}, "amount"),
        ({"amount": 5.5}, "amount"),
        ({"currency": "usd"}, "currency"),
        ({"period": "week"}, "period"),
        ({"thresholds": [0]}, "thresholds.0"),
        ({"scope": {"tag_value": "red"}}, "scope"),
        ({"scope": {"region": "x"}}, "scope.region"),
        ({"name": ""}, "name"),
    ],
)
def test_what_is_no_budget_is_refused_by_field(server: Server, tenant: Tenant, wrong: Json, field: str) -> None:
    with server.client(server.token(role="operator", tenant=tenant.slug)) as client:
        assert fields(client.post("/api/budgets", json=budget(**wrong))) == [field]


def test_budgets_are_those_of_the_tenant_and_go_with_it(server: Server, tenant: Tenant) -> None:
    rival = tenant_of(server, add_tenant(server))
    made = ask(server, tenant, "POST", "/api/budgets", budget(thresholds=[50]), 201)
    with server.client(server.token(role="operator", tenant=rival.slug)) as client:
        codes = [
            client.request(method, f"/api/budgets/{made['id']}", json=body).status_code
            for method, body in (("GET", None), ("PATCH", {"amount": "1"}), ("DELETE", None))
        ]
        missing = client.post(f"/api/budget-alerts/{uuid4()}/acknowledge", json={}).status_code

    sql(server, "UPDATE tenants SET status = 'deleted' WHERE id = $1", tenant.id)

    assert (codes, missing) == ([404] * 3, 404)
    for table in ("cost_budgets", "cost_budget_alerts", "cost_budget_checks", "cost_totals_daily", "cost_rates"):
        assert sql(server, f"SELECT 1 FROM {table} WHERE tenant_id = $1", tenant.id) == []


def test_a_forecast_beyond_the_budget_puts_it_at_risk() -> None:
    given: Json = {"period": "month", "currency": "USD", "measure": "effective", "amount": Decimal(250)}
    today = date(2026, 4, 16)
    spent = [
        {"day": today - timedelta(days=back), "currency": "USD", "effective": Decimal(10)} for back in range(1, 60)
    ]

    state = evaluate(given, spent, today)
    modest = evaluate(given | {"amount": Decimal(1000)}, spent, today)

    assert (state.actual, state.forecast, state.status) == (150, 300, "at_risk")
    assert (state.overrun, modest.overrun, modest.status) == (50, None, "ok")


@pytest.mark.parametrize(
    ("period", "day", "span"),
    [
        ("month", date(2028, 2, 10), (date(2028, 2, 1), date(2028, 2, 29))),
        ("quarter", date(2026, 5, 31), (date(2026, 4, 1), date(2026, 6, 30))),
        ("year", date(2026, 12, 31), (date(2026, 1, 1), date(2026, 12, 31))),
    ],
)
def test_a_period_is_one_of_the_calendar(period: str, day: date, span: tuple[date, date]) -> None:
    assert span_of(period, day) == span
