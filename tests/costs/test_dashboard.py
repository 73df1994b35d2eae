"""The dashboard: sums equal to the rows', beside the time before, apart by currency, with an honest look ahead."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from dragoman_costs.forecast import forecast
from tests.backstage import add_tenant
from tests.costs.billing import Row, Tenant, made_up, store, tenant_of
from tests.doors.rest.calling import data, fields, problem
from tests.harness import InProcess, Server

pytestmark = pytest.mark.req("GW-008")
Json = dict[str, Any]
ROWS = made_up(seed=11, count=600)
OCTOBER = {"start_date": "2026-10-01", "end_date": "2026-10-31"}
FIRST, LAST = date(2026, 10, 1), date(2026, 10, 31)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with InProcess() as running:
        yield running


@pytest.fixture(scope="module")
def tenant(server: Server) -> Tenant:
    made = tenant_of(server, add_tenant(server))
    store(server, made, ROWS)
    return made


def look(server: Server, tenant: Tenant, part: str = "", **asked: Any) -> Json:
    """Look as a viewer of the tenant."""
    with server.client(server.token(role="viewer", tenant=tenant.slug)) as client:
        return data(client.get(f"/api/dashboard{part}", params=asked))


def spent(rows: list[Row], currency: str, first: date, last: date) -> Decimal:
    """The effective cost of some days, by the rows."""
    return sum((row.effective for row in rows if row.currency == currency and first <= row.day <= last), Decimal(0))


def test_totals_are_those_of_the_rows_beside_the_time_before_and_apart_by_currency(
    server: Server, tenant: Tenant
) -> None:
    page = look(server, tenant, **OCTOBER)
    services = look(server, tenant, "/by-service", limit=200, **OCTOBER)["shares"]

    assert page["period"] == {"start_date": "2026-10-01", "end_date": "2026-10-31"}
    assert page["previous"] == {"start_date": "2026-08-31", "end_date": "2026-09-30"}
    assert [one["currency"] for one in page["currencies"]] == ["CHF", "EUR", "USD"]
    for one, shares in zip(page["currencies"], services, strict=True):
        total = spent(ROWS, one["currency"], FIRST, LAST)
        previous = spent(ROWS, one["currency"], date(2026, 8, 31), date(2026, 9, 30))
        assert (Decimal(one["total"]), Decimal(one["previous"])) == (total, previous)
        assert Decimal(one["change"]) == total - previous
        untagged = [row for row in ROWS if not row.tags]
        assert Decimal(one["untagged"]) == spent(untagged, one["currency"], FIRST, LAST)
        for parts in (one["trend"], one["by_provider"], shares["items"], one["by_account"]):
            assert sum(Decimal(part["total"]) for part in parts) == total
        for parts in (one["by_provider"], shares["items"], one["by_account"]):
            assert sum(Decimal(part["previous"]) for part in parts) == previous
        assert len(one["trend"]) == 31
        changes = [abs(Decimal(part["change"])) for part in one["movers"]]
        assert changes == sorted(changes, reverse=True)


@pytest.mark.parametrize(("granularity", "days"), [("week", ["2026-09-28", "2026-10-26"]), ("month", ["2026-10-01"])])
def test_the_trend_has_a_point_for_each_step(server: Server, tenant: Tenant, granularity: str, days: list[str]) -> None:
    trends = look(server, tenant, "/cost-trend", granularity=granularity, **OCTOBER)["trends"]

    for trend in trends:
        found = [point["day"] for point in trend["points"]]
        assert (found[0], found[-1]) == (days[0], days[-1])
        assert sum(Decimal(point["total"]) for point in trend["points"]) == spent(ROWS, trend["currency"], FIRST, LAST)


def test_parts_say_the_same_as_the_page(server: Server, tenant: Tenant) -> None:
    page = look(server, tenant, **OCTOBER)
    overview = look(server, tenant, "/overview", **OCTOBER)["totals"]
    services = look(server, tenant, "/by-service", **OCTOBER)["shares"]
    providers = look(server, tenant, "/by-provider", limit=1, **OCTOBER)["shares"]

    for one, totals, service, provider in zip(page["currencies"], overview, services, providers, strict=True):
        assert totals == {name: one[name] for name in totals}
        assert service["items"][:10] == one["by_service"]
        assert provider["items"] == one["by_provider"][:1]


def test_a_look_may_be_narrowed_to_a_provider_or_an_account(server: Server, tenant: Tenant) -> None:
    of_provider = [row for row in ROWS if row.provider == "GCP"]
    of_account = [row for row in ROWS if row.account == "office"]

    by_provider = look(server, tenant, provider="GCP", **OCTOBER)["currencies"]
    by_account = look(server, tenant, account_id=tenant.accounts["office"], **OCTOBER)["currencies"]

    for found, rows in ((by_provider, of_provider), (by_account, of_account)):
        assert {one["currency"]: Decimal(one["total"]) for one in found} == {
            one["currency"]: spent(rows, one["currency"], FIRST, LAST) for one in found
        }
        assert found


def test_it_is_converted_where_all_days_have_a_rate_and_refused_where_one_has_none(server: Server) -> None:
    several = tenant_of(server, add_tenant(server))
    rows = [Row(date(2026, 10, 1), Decimal(10)), Row(date(2026, 10, 2), Decimal(3), currency="EUR")]
    store(server, several, rows)
    asked = {**OCTOBER, "currency": "EUR"}
    with server.client(server.token(tenant=several.slug)) as client:
        refused = problem(client.get("/api/dashboard", params=asked), 400, "INVALID_PARAMS")
        rate = {"from_currency": "USD", "to_currency": "EUR", "period": "2026-10", "rate": "0.5"}
        data(client.post("/api/cost-rates", json={"rates": [rate]}))

    (one,) = look(server, several, **asked)["currencies"]

    assert refused["details"]["reason"] == "RATE_MISSING"
    assert (one["currency"], one["total"], one["by_service"][0]["total"]) == ("EUR", "8", "8")
    assert one["by_account"][0]["name"] == "main"


def test_unset_it_shows_the_month_of_the_last_day_that_has_data(server: Server, tenant: Tenant) -> None:
    page = look(server, tenant)

    last = max(row.day for row in ROWS)
    assert page["as_of"] == page["period"]["end_date"] == last.isoformat()
    assert page["period"]["start_date"] == "2026-10-01"


def test_a_tenant_without_costs_has_an_empty_page_and_sees_nothing_of_others(server: Server, tenant: Tenant) -> None:
    empty = tenant_of(server, add_tenant(server))

    page = look(server, empty, account_id=tenant.accounts["prod"])

    assert page == {
        "period": None, "previous": None, "as_of": None, "synthetic": False, "granularity": "day", "currencies": [],
        "budgets": [], "anomalies": {"totals": [], "items": []}, "savings": {"totals": [], "items": []},
    }  # fmt: skip
    for part, name in (("/overview", "totals"), ("/cost-trend", "trends"), ("/by-provider", "shares"),
                       ("/by-service", "shares")):  # fmt: skip
        assert look(server, empty, part)[name] == []


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"start_date": "2026-10-02", "end_date": "2026-10-01"}, "start_date"),
        ({"start_date": "2000-01-01", "end_date": "2026-10-01"}, "start_date"),
        ({"start_date": "yesterday"}, "start_date"),
        ({"account_id": "prod"}, "account_id"),
        ({"granularity": "hour"}, "granularity"),
        ({"currency": "euro"}, "currency"),
        ({"nonsense": "1"}, "nonsense"),
    ],
)
def test_what_cannot_be_shown_is_refused_by_field(server: Server, tenant: Tenant, asked: Json, field: str) -> None:
    with server.client(server.token(role="viewer", tenant=tenant.slug)) as client:
        assert fields(client.get("/api/dashboard", params=asked)) == [field]


def test_the_present_month_is_forecast_from_its_days_and_the_past(server: Server) -> None:
    steady = tenant_of(server, add_tenant(server))
    today = datetime.now(UTC).date()
    store(server, steady, [Row(today - timedelta(days=back), Decimal(10)) for back in range(60)])

    (one,) = look(server, steady, "/overview")["totals"]

    assert one["next_30_days"]["total"] == "300"
    assert Decimal(one["next_30_days"]["low"]) <= 300 <= Decimal(one["next_30_days"]["high"])
    assert (one["month"] is None) or Decimal(one["month"]["total"]) % 10 == 0


def series(chance: Random, days: int, *, trend: float = 0.0, noise: float = 0.08, lasting: float = 0.0) -> list[float]:
    """A week's season, a trend and noise around 100 a day."""
    season, rest, values = [0.0, 8.0, 15.0, 12.0, 6.0, -18.0, -23.0], 0.0, list[float]()
    for day in range(days):
        rest = lasting * rest + chance.gauss(0, noise * 100)
        values.append(100 + trend * day + season[day % 7] + rest)
    return values


@pytest.mark.parametrize("shape", [{}, {"trend": 0.5}, {"trend": -0.5}, {"noise": 0.3}, {"lasting": 0.5}], ids=str)
def test_four_of_five_intervals_hold_the_truth_and_the_forecast_is_near_it(shape: dict[str, float]) -> None:
    held, off = 0, 0.0
    for seed in range(200):
        values = series(Random(seed), 56 + 20, **shape)
        found, truth = forecast(values[:56], 20), sum(values[56:])
        assert found is not None
        held += found.low <= truth <= found.high
        off += abs(found.total - truth) / truth

    assert 0.65 <= held / 200 <= 0.95
    assert off / 200 <= 0.3 * max(shape.get("noise", 0.2), 0.2)


def test_days_that_are_far_off_do_not_move_a_forecast() -> None:
    values = series(Random(1), 56)
    spiked = [value * 20 if place in (10, 30, 50) else value for place, value in enumerate(values)]
    plain, robust = forecast(values, 20), forecast(spiked, 20)

    assert plain is not None
    assert robust is not None
    assert abs(robust.total - plain.total) < 0.1 * plain.total


def test_little_is_known_of_a_short_past() -> None:
    level = forecast([10.0] * 5, 10)

    assert forecast([1.0, 2.0], 10) is None
    assert level is not None
    assert (level.method, level.total) == ("level", 100.0)
