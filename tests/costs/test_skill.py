"""Costs in plain words: clear questions become queries without a model, and others are answered with examples."""

from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest

from dragoman_costs.skill import read_question
from tests.backstage import add_tenant
from tests.costs.billing import Row, store, tenant_of
from tests.harness import InProcess, Server

pytestmark = pytest.mark.req("GW-015")
Json = dict[str, Any]
TODAY = date(2026, 11, 19)
OCTOBER = {"start_date": "2026-10-01", "end_date": "2026-10-31"}


def of_service(name: str) -> Json:
    return {"filters": [{"field": "service", "op": "contains", "value": name}]}


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("What did we spend on EC2 last month", OCTOBER | of_service("elastic compute cloud")),
        ("what did we spend last month on BigQuery", OCTOBER | of_service("BigQuery")),
        ("How much did we spend on Azure in October",
         OCTOBER | {"filters": [{"field": "provider", "op": "contains", "value": "microsoft"}]}),
        ("what did we spend last month", OCTOBER),
        ("Top services this week", {"start_date": "2026-11-16", "end_date": "2026-11-19", "dimensions": ["service"],
                                    "limit": 10}),
        ("top 3 resources last 7 days", {"start_date": "2026-11-13", "end_date": "2026-11-19", "dataset": "resources",
                                         "dimensions": ["resource", "service"], "limit": 3}),
        ("costs by region in October", OCTOBER | {"dimensions": ["region"]}),
        ("spend by tag:team in December 2025", {"start_date": "2025-12-01", "end_date": "2025-12-31",
                                                "dimensions": ["tag:team"]}),
        ("costs by month this year", {"start_date": "2026-01-01", "end_date": "2026-11-19", "dimensions": ["month"]}),
        ("what did we spend in December", {"start_date": "2025-12-01", "end_date": "2025-12-31"}),
        ("what do we spend on everything", {}),
    ],
)  # fmt: skip
def test_a_clear_question_is_one_query(words: str, asked: Json) -> None:
    assert read_question(words, TODAY) == {"measures": ["effective"], **asked}


@pytest.mark.parametrize("words", ["why is it so expensive", "top models", "costs by colour", "tell me a joke", ""])
def test_what_is_not_clear_is_not_guessed(words: str) -> None:
    assert read_question(words, TODAY) is None


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with InProcess() as running:
        yield running


def test_a_question_in_a_conversation_is_answered_from_the_costs_of_the_tenant(server: Server) -> None:
    tenant = tenant_of(server, add_tenant(server))
    day = date.today() - timedelta(days=1)  # noqa: DTZ011 - far from midnight or not, both days are asked for
    store(server, tenant, [Row(day, Decimal("12.5")), Row(day, Decimal(2), service="Database")])

    def say(words: str) -> Json:
        message = {"role": "user", "parts": [{"type": "text", "text": words}]}
        with server.client(server.token(role="operator", tenant=tenant.slug)) as client:
            return client.post("/tasks/send", json={"message": message}).json()

    top, page, unclear = (say(words) for words in ("Top services last 7 days", "costs dashboard", "costs: why?"))

    assert top["status"]["state"] == "completed"
    parts = [part for artifact in top["artifacts"] for part in artifact["parts"]]
    (rows,) = [part["data"]["rows"] for part in parts if part["type"] == "data"]
    assert [(row["service"], row["effective"]) for row in rows] == [("Compute", "12.5"), ("Database", "2")]
    assert page["status"]["state"] == "completed"
    assert unclear["status"]["state"] == "failed"
