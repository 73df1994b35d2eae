"""Converting: by the rates of the tenant, on the day of each charge, and not at all where one is missing."""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from tests.backstage import add_tenant
from tests.costs.billing import Row, Tenant, store, tenant_of
from tests.doors.rest.calling import data, fields, problem
from tests.harness import InProcess, Server

pytestmark = pytest.mark.req("GW-015")
Json = dict[str, Any]
ROWS = [
    Row(date(2026, 9, 1), Decimal(10), currency="USD", tags={"team": "red"}, resource="r-1"),
    Row(date(2026, 9, 2), Decimal(10), currency="USD", region="us-east-1"),
    Row(date(2026, 9, 2), Decimal("0.5"), currency="CHF"),
    Row(date(2026, 10, 3), Decimal(7), currency="EUR"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with InProcess() as running:
        yield running


@pytest.fixture
def tenant(server: Server) -> Tenant:
    made = tenant_of(server, add_tenant(server))
    store(server, made, ROWS)
    return made


def rate(source: str, period: str, value: str, target: str = "EUR") -> Json:
    return {"from_currency": source, "to_currency": target, "period": period, "rate": value}


def set_rates(server: Server, tenant: Tenant, *rates: Json) -> Json:
    """Set rates as an operator of the tenant."""
    with server.client(server.token(role="operator", tenant=tenant.slug)) as client:
        return data(client.post("/api/cost-rates", json={"rates": list(rates)}))


def rows(server: Server, tenant: Tenant, **query: Any) -> list[Json]:
    """Ask in euros."""
    with server.client(server.token(role="viewer", tenant=tenant.slug)) as client:
        return data(client.post("/api/costs/query", json={"currency": "EUR", **query}))["rows"]


def test_each_charge_is_converted_by_the_rate_of_its_day_and_a_day_wins_over_its_month(
    server: Server, tenant: Tenant
) -> None:
    set_rates(
        server, tenant, rate("USD", "2026-09", "0.9"), rate("USD", "2026-09-02", "0.8"), rate("CHF", "2026-09", "2")
    )

    assert rows(server, tenant) == [{"currency": "EUR", "effective": "25"}]
    assert rows(server, tenant, dimensions=["service"]) == [
        {"service": "Compute", "currency": "EUR", "effective": "25"}
    ]  # fmt: skip
    by_region = rows(server, tenant, dimensions=["region"], start_date="2026-09-02", end_date="2026-09-02")
    assert [row["effective"] for row in by_region] == ["8", "1"]
    assert [row["effective"] for row in rows(server, tenant, dimensions=["tag:team"])] == ["16", "9"]
    assert [row["effective"] for row in rows(server, tenant, dataset="resources")] == ["9"]
    assert {row["effective"] for row in rows(server, tenant, dataset="rows")} == {"9", "8", "1", "7"}
    assert rows(server, tenant, filters=[{"field": "effective", "op": "gt", "value": "25"}]) == []


def test_without_a_rate_nothing_is_converted_and_the_pair_and_days_are_named(server: Server, tenant: Tenant) -> None:
    set_rates(server, tenant, rate("USD", "2026-09-01", "0.9"), rate("EUR", "2026-09", "1.1", target="CHF"))

    with server.client(server.token(role="viewer", tenant=tenant.slug)) as client:
        refused = problem(client.post("/api/costs/query", json={"currency": "EUR"}), 400, "INVALID_PARAMS")

    assert refused["details"]["reason"] == "RATE_MISSING"
    assert refused["details"]["missing"] == [
        {"from": source, "to": "EUR", "days": [{"first": "2026-09-02", "last": "2026-09-02"}]}
        for source in ("CHF", "USD")
    ]
    assert rows(server, tenant, filters=[{"field": "currency", "value": "EUR"}])[0]["effective"] == "7"


def test_without_a_wish_nothing_is_converted_or_added_across_currencies(server: Server, tenant: Tenant) -> None:
    set_rates(server, tenant, rate("USD", "2026-09", "0.9"), rate("CHF", "2026-09", "2"))

    with server.client(server.token(role="viewer", tenant=tenant.slug)) as client:
        found = data(client.post("/api/costs/query", json={}))["rows"]

    assert {row["currency"]: row["effective"] for row in found} == {"USD": "20", "EUR": "7", "CHF": "0.5"}


def test_a_rate_is_replaced_listed_and_removed(server: Server, tenant: Tenant) -> None:
    first = set_rates(server, tenant, rate("USD", "2026-09", "0.9"))["rates"][0]
    second = set_rates(server, tenant, rate("USD", "2026-09", "0.95"), rate("USD", "2026-09-30", "0.96"))["rates"]
    with server.client(server.token(role="operator", tenant=tenant.slug)) as client:
        listed = data(client.get("/api/cost-rates", params={"from_currency": "USD"}))
        removed = client.delete(f"/api/cost-rates/{first['id']}")
        again = client.delete(f"/api/cost-rates/{first['id']}")
        left = data(client.get("/api/cost-rates"))

    assert second[0]["id"] == first["id"]
    assert [(one["period"], one["rate"]) for one in listed] == [("2026-09-30", "0.96"), ("2026-09", "0.95")]
    assert (removed.status_code, again.status_code) == (200, 404)
    assert [one["period"] for one in left] == ["2026-09-30"]


def test_rates_are_those_of_the_tenant(server: Server, tenant: Tenant) -> None:
    rival = tenant_of(server, add_tenant(server))
    store(server, rival, ROWS[:1])
    set_rates(server, tenant, rate("USD", "2026-09", "0.9"), rate("CHF", "2026-09", "2"))

    with server.client(server.token(role="viewer", tenant=rival.slug)) as client:
        problem(client.post("/api/costs/query", json={"currency": "EUR"}), 400, "INVALID_PARAMS")


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (rate("USD", "2026-13", "1"), "rates.0.period"),
        (rate("USD", "2026-02-30", "1"), "rates.0"),
        (rate("usd", "2026-09", "1"), "rates.0.from_currency"),
        (rate("EUR", "2026-09", "1"), "rates.0"),
        (rate("USD", "2026-09", "0"), "rates.0"),
        (rate("USD", "2026-09", "-1"), "rates.0"),
        (rate("USD", "2026-09", "NaN"), "rates.0.rate"),
        (rate("USD", "2026-09", "1e400"), "rates.0.rate"),
        (rate("USD", "2026-09", "one"), "rates.0.rate"),
        (rate("USD", "2026-09", "1") | {"rate": 0.9}, "rates.0.rate"),
    ],
)
def test_what_is_no_rate_is_refused_and_none_is_set(server: Server, tenant: Tenant, wrong: Json, field: str) -> None:
    with server.client(server.token(role="operator", tenant=tenant.slug)) as client:
        refused = client.post("/api/cost-rates", json={"rates": [wrong, rate("USD", "2026-08", "1")]})
        twice = client.post("/api/cost-rates", json={"rates": [rate("USD", "2026-08", "1")] * 2})
        left = data(client.get("/api/cost-rates"))

    assert fields(refused) == [field]
    assert fields(twice) == ["rates.1"]
    assert left == []
