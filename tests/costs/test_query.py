"""Structured queries: equal to sums over the rows, whichever roll-up answers, and clear about what is wrong."""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.backstage import add_tenant
from tests.costs.billing import FILE, Row, Tenant, made_up, store, tenant_of
from tests.costs.oracle import answer
from tests.doors.rest.calling import data, problem
from tests.harness import InProcess, Server

pytestmark = pytest.mark.req("GW-015")
Json = dict[str, Any]
ROWS = made_up(seed=7, count=900)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with InProcess({"DRAGOMAN_COSTS__MAX_QUERY_ROWS": "1000"}) as running:
        yield running


@pytest.fixture(scope="module")
def tenant(server: Server) -> Tenant:
    """A tenant with nine hundred charges of three months, three accounts and three currencies."""
    made = tenant_of(server, add_tenant(server))
    store(server, made, ROWS)
    return made


def ask(server: Server, tenant: Tenant, query: Json) -> Json:
    """Query as an analyst of the tenant."""
    with server.client(server.token(role="analyst", tenant=tenant.slug)) as client:
        return data(client.post("/api/costs/query", json=query))


def complaints(server: Server, tenant: Tenant, query: Json) -> dict[str, str]:
    """What a refused query is told, by field."""
    with server.client(server.token(role="analyst", tenant=tenant.slug)) as client:
        refused = problem(client.post("/api/costs/query", json=query), 400, "INVALID_PARAMS")
    return {error["field"]: error["message"] for error in refused["errors"]}


def valued(result: Json) -> list[Json]:
    """The rows of an answer with amounts as numbers."""
    amounts = {column["name"] for column in result["columns"] if column["type"] == "amount"}
    return [
        {name: Decimal(value) if name in amounts and value is not None else value for name, value in row.items()}
        for row in result["rows"]
    ]


def same(found: list[Json], expected: list[Json]) -> bool:
    """Check whether two answers have the same rows, in any order."""
    return sorted(map(repr, map(plain, found))) == sorted(map(repr, map(plain, expected)))


def plain(row: Json) -> list[tuple[str, Any]]:
    """A row in one notation."""
    return sorted((name, value.normalize() if isinstance(value, Decimal) else value) for name, value in row.items())


DIMENSIONS = {
    "costs": ["provider", "account", "account_name", "service", "service_category", "region", "sub_account",
              "sub_account_name", "charge_category", "pricing_category", "currency", "tag:team", "tag:env", "day",
              "week", "month", "quarter", "year"],
    "resources": ["resource", "resource_name", "resource_type", "unit", "provider", "account_name", "service",
                  "region", "sub_account", "charge_category", "pricing_category", "tag:team", "month"],
    "tags": ["tag_key", "tag_value", "provider", "account", "service", "charge_category", "week"],
}  # fmt: skip
MEASURES = {
    "costs": ["effective", "billed", "list", "contracted", "untagged", "row_count"],
    "resources": ["effective", "billed", "list", "contracted", "quantity", "row_count"],
    "tags": ["effective", "billed", "list", "contracted", "row_count"],
}
VALUES = {
    "provider": ["AWS", "GCP", "aws"], "service": ["Compute", "O'Neil; DROP--", "Größe", "GRÖSSE", ""],
    "account_name": ["prod", "data"], "region": ["", "us-east-1"], "currency": ["USD", "CHF"],
    "charge_category": ["Tax", "Usage"], "tag:team": ["red", "Blue", "none"], "service_category": ["Storage"],
    "resource": ["prod-1", "data-2"], "tag_key": ["team"], "tag_value": ["blue", "test"],
}  # fmt: skip


@st.composite
def filters(draw: st.DrawFn, dataset: str) -> Json:
    kind = draw(st.sampled_from(["text", "text", "day", "measure"]))
    if kind == "day":
        op = draw(st.sampled_from(["eq", "ne", "gt", "gte", "lt", "lte"]))
        return {"field": "day", "op": op, "value": draw(st.dates(date(2026, 8, 1), date(2026, 10, 31))).isoformat()}
    if kind == "measure":
        field = draw(st.sampled_from([name for name in MEASURES[dataset] if name != "quantity"]))
        value: Any = draw(st.integers(0, 5)) if field == "row_count" else str(draw(st.decimals(-100, 10_000, places=3)))
        return {"field": field, "op": draw(st.sampled_from(["gt", "gte", "lt", "lte", "ne"])), "value": value}
    known = {*DIMENSIONS[dataset], "tag_key", "tag_value"} if dataset == "tags" else set(DIMENSIONS[dataset])
    field = draw(st.sampled_from(sorted(known & VALUES.keys())))
    op = draw(st.sampled_from(["eq", "ne", "in", "not_in", "contains", "starts_with"]))
    if op in ("in", "not_in"):
        return {
            "field": field,
            "op": op,
            "value": draw(st.lists(st.sampled_from(VALUES[field]), min_size=1, max_size=2)),
        }
    empty = [None] if field.startswith("tag:") and op in ("eq", "ne") else []
    return {"field": field, "op": op, "value": draw(st.sampled_from([*VALUES[field], *empty]))}


@st.composite
def queries(draw: st.DrawFn) -> Json:
    dataset = draw(st.sampled_from(["costs", "costs", "resources", "tags"]))
    query: Json = {
        "dataset": dataset,
        "dimensions": draw(st.lists(st.sampled_from(DIMENSIONS[dataset]), max_size=3, unique=True)),
        "measures": draw(st.lists(st.sampled_from(MEASURES[dataset]), min_size=1, max_size=3, unique=True)),
        "filters": draw(st.lists(filters(dataset), max_size=3)),
        "limit": 5000,
    }
    if draw(st.booleans()) and (free := [one for one in ("week", "month") if one not in query["dimensions"]]):
        query["grain"] = draw(st.sampled_from(free))
    if draw(st.booleans()):
        query["start_date"], query["end_date"] = "2026-08-15", "2026-10-07"
    return query


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=queries())
def test_every_answer_is_equal_to_sums_over_the_rows(server: Server, tenant: Tenant, query: Json) -> None:
    result = ask(server, tenant, query)

    assert same(valued(result), answer(tenant, ROWS, query)), result["source"]
    assert result["truncated"] is False
    assert all(row["currency"] for row in result["rows"])


@pytest.mark.parametrize(
    ("query", "source"),
    [
        ({"dimensions": ["provider", "account"], "measures": ["untagged"], "grain": "month"}, "totals"),
        ({"dimensions": ["service"]}, "services"),
        ({"dimensions": ["tag:team", "service"]}, "tags"),
        ({"filters": [{"field": "tag:team", "value": "red"}]}, "tags"),
        ({"dimensions": ["region"]}, "daily"),
        ({"dimensions": ["region", "tag:team"]}, "rows"),
        ({"dimensions": ["tag:env", "tag:team"]}, "rows"),
        ({"dataset": "resources", "dimensions": ["resource"]}, "resources"),
        ({"dataset": "tags", "dimensions": ["tag_key"]}, "tags"),
        ({"dataset": "rows"}, "rows"),
    ],
)
def test_the_smallest_roll_up_that_has_all_names_answers(
    server: Server, tenant: Tenant, query: Json, source: str
) -> None:
    assert ask(server, tenant, query)["source"] == source


def test_a_number_leads_to_its_rows_with_file_and_line(server: Server, tenant: Tenant) -> None:
    filters = [{"field": "service", "value": "Compute"}, {"field": "tag:team", "value": "red"},
               {"field": "currency", "value": "EUR"}]  # fmt: skip
    (number,) = valued(ask(server, tenant, {"filters": filters}))

    rows = ask(server, tenant, {"dataset": "rows", "filters": filters, "limit": 5000})

    assert sum(row["effective"] for row in valued(rows)) == number["effective"]
    assert {row["file"] for row in rows["rows"]} == {FILE}
    assert all(row["line"] >= 1 for row in rows["rows"])


def test_the_columns_of_rows_can_be_chosen(server: Server, tenant: Tenant) -> None:
    query = {"dataset": "rows", "dimensions": ["line", "tags", "charge_start"], "measures": ["list"], "limit": 2}

    result = ask(server, tenant, query)

    assert [column["name"] for column in result["columns"]] == ["line", "tags", "charge_start", "currency", "list"]
    assert result["truncated"] is True
    assert isinstance(result["rows"][0]["tags"], dict)


def test_rows_come_in_the_order_that_was_asked_for_and_a_limit_cuts_it(server: Server, tenant: Tenant) -> None:
    query = {"dimensions": ["service"], "grain": "month", "limit": 5000}
    by_default = ask(server, tenant, query)["rows"]
    by_cost = ask(server, tenant, query | {"order_by": [{"field": "effective", "direction": "asc"}]})
    few = ask(server, tenant, query | {"limit": 3})

    assert [row["month"] for row in by_default] == sorted(row["month"] for row in by_default)
    costs = [row["effective"] for row in valued(by_cost)]
    assert costs == sorted(costs)
    assert few["rows"] == by_default[:3]
    assert few["truncated"] is True


def test_unknown_names_are_answered_with_the_nearest_one_and_all_at_once(server: Server, tenant: Tenant) -> None:
    query = {
        "dimensions": ["servise", "effective"],
        "measures": ["cost"],
        "filters": [{"field": "Region", "value": "x"}, {"field": "resource", "value": "x"}],
        "order_by": [{"field": "billed"}],
    }

    told = complaints(server, tenant, query)

    assert "did you mean 'service'?" in told["dimensions.0"]
    assert "move it to measures" in told["dimensions.1"]
    assert "did you mean 'effective'?" in told["measures.0"]
    assert "did you mean 'region'?" in told["filters.0.field"]
    assert "unknown field 'resource' of dataset 'costs'" in told["filters.1.field"]
    assert "unknown column 'billed'" in told["order_by.0.field"]


@pytest.mark.parametrize(
    ("condition", "place"),
    [
        ({"field": "service", "value": 5}, "value"),
        ({"field": "service", "op": "gt", "value": "a"}, "op"),
        ({"field": "service", "value": ["a"]}, "value"),
        ({"field": "service", "op": "in", "value": "a"}, "value"),
        ({"field": "account", "value": "prod"}, "value"),
        ({"field": "day", "op": "gte", "value": "yesterday"}, "value"),
        ({"field": "day", "op": "gte", "value": "99999-01-01"}, "value"),
        ({"field": "effective", "op": "gt", "value": "much"}, "value"),
        ({"field": "effective", "op": "gt", "value": "NaN"}, "value"),
        ({"field": "effective", "op": "gt", "value": True}, "value"),
        ({"field": "row_count", "op": "gt", "value": 1.5}, "value"),
        ({"field": "provider", "value": None}, None),
        ({"field": "day", "value": None}, "value"),
    ],
)
def test_a_filter_that_does_not_fit_its_field_is_refused_at_its_place(
    server: Server, tenant: Tenant, condition: Json, place: str | None
) -> None:
    if place is None:
        assert ask(server, tenant, {"filters": [condition]})["rows"] == []
    else:
        assert list(complaints(server, tenant, {"filters": [condition]})) == [f"filters.0.{place}"]


@pytest.mark.parametrize(
    "query",
    [
        {"dataset": "secrets"},
        {"sql": "SELECT 1"},
        {"grain": "hour"},
        {"limit": 0},
        {"limit": 100_000},
        {"measures": []},
        {"start_date": "2026-02-30"},
        {"start_date": "2026-10-02", "end_date": "2026-10-01"},
        {"currency": "euro"},
        {"dimensions": ["service", "service"]},
        {"dimensions": ["tag:"]},
        {"dataset": "rows", "grain": "day"},
        {"dataset": "tags", "dimensions": ["tag:team"]},
        {"dimensions": [f"tag:{number}" for number in range(6)]},
        {"filters": [{"field": "service", "op": "like", "value": "x"}]},
    ],
)
def test_what_is_no_query_is_refused(server: Server, tenant: Tenant, query: Json) -> None:
    assert complaints(server, tenant, query)


@pytest.mark.parametrize(
    "words",
    [
        "' OR 1=1 --",
        "'; DROP TABLE cost_rows; --",
        "$1",
        "%s",
        "\\",
        "{tag_key}",
        "{currency}",
        "x' UNION TABLE pg_user",
    ],
)
def test_no_text_becomes_sql(server: Server, tenant: Tenant, words: str) -> None:
    for operator in ("eq", "contains", "starts_with"):
        found = ask(server, tenant, {"filters": [{"field": "service", "op": operator, "value": words}]})
        assert found["rows"] == []
    tagged = ask(server, tenant, {"dimensions": [f"tag:{words}"], "measures": ["row_count"]})
    both = ask(server, tenant, {"dimensions": [f"tag:{words}", "region", f"tag:{words}2"], "measures": ["row_count"]})
    assert {row[f"tag:{words}"] for row in tagged["rows"]} == {None}
    assert sum(row["row_count"] for row in tagged["rows"]) == sum(row["row_count"] for row in both["rows"]) == len(ROWS)
    assert complaints(server, tenant, {"dimensions": [words]})
    assert complaints(server, tenant, {"order_by": [{"field": words}]})


def test_a_query_over_the_bound_is_refused_with_a_hint_and_a_narrower_one_is_answered(server: Server) -> None:
    large = tenant_of(server, add_tenant(server))
    rows = [Row(date(2026, 9, 1 + number % 30), Decimal(1), tags={"a": "b"}) for number in range(1_500)]
    store(server, large, rows)
    query = {"dimensions": ["tag:a", "region"]}

    with server.client(server.token(role="analyst", tenant=large.slug)) as client:
        refused = problem(client.post("/api/costs/query", json=query), 400, "INVALID_PARAMS")
    narrow = ask(server, large, query | {"start_date": "2026-09-01", "end_date": "2026-09-10"})
    rolled_up = ask(server, large, {"dimensions": ["service"]})

    assert refused["details"]["reason"] == "QUERY_TOO_COSTLY"
    assert (refused["details"]["rows"], refused["details"]["most_rows"]) == (1_500, 1_000)
    assert "start_date" in refused["detail"]
    assert narrow["rows"][0]["effective"] == "500"
    assert rolled_up["rows"][0]["effective"] == "1500"


def test_a_tenant_sees_its_own_costs_alone_and_an_empty_one_none(server: Server, tenant: Tenant) -> None:
    rival, empty = (tenant_of(server, add_tenant(server)) for _ in range(2))
    store(server, rival, [Row(date(2026, 9, 1), Decimal("7.5"))])
    query = {"dimensions": ["account"], "measures": ["effective", "row_count"]}

    theirs = ask(server, rival, query)["rows"]
    foreign = ask(server, rival, {"filters": [{"field": "account", "value": str(tenant.accounts["prod"])}]})

    assert theirs == [
        {"account": str(rival.accounts["main"]), "currency": "USD", "effective": "7.5", "row_count": 1}
    ]  # fmt: skip
    assert foreign["rows"] == []
    for dataset in ("costs", "resources", "tags", "rows"):
        assert ask(server, empty, {"dataset": dataset})["rows"] == []


def test_a_replaced_slice_counts_no_longer(server: Server) -> None:
    again = tenant_of(server, add_tenant(server))
    store(server, again, [Row(date(2026, 9, 1), Decimal(5), tags={"a": "b"}, resource="r")] * 3)
    store(server, again, [Row(date(2026, 9, 2), Decimal(8))])

    for query in ({}, {"dimensions": ["service"]}, {"dimensions": ["tag:a"]}, {"dimensions": ["region"]},
                  {"dataset": "rows", "measures": ["effective"]}):  # fmt: skip
        assert [row["effective"] for row in ask(server, again, query)["rows"]] == ["8"]
    assert ask(server, again, {"dataset": "resources"})["rows"] == []


def test_the_schema_says_what_can_be_asked_and_its_examples_can(server: Server, tenant: Tenant) -> None:
    with server.client(server.token(role="viewer", tenant=tenant.slug)) as client:
        schema = data(client.get("/api/costs/schema"))

    assert [one["name"] for one in schema["datasets"]] == ["costs", "resources", "tags", "rows"]
    assert schema["most_rows_read"] == 1_000
    assert set(schema["query_schema"]["properties"]) >= {"dataset", "measures", "dimensions", "filters", "grain"}
    for example in schema["examples"]:
        ask(server, tenant, example["query"])
    for dataset in schema["datasets"]:
        for one in [*dataset["dimensions"], *dataset["measures"]]:
            columns = "measures" if one in dataset["measures"] else "dimensions"
            ask(server, tenant, {"dataset": dataset["name"], columns: [one["name"]], "limit": 1})
