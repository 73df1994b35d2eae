"""A billing export that its provider announces has its account synced."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.costs.exports import row, written
from tests.costs.fake_s3 import FakeStore, fake_s3
from tests.harness import InProcess, Server, wait_for
from tests.services.inbox.senders import Source

pytestmark = [pytest.mark.req("GW-013"), pytest.mark.req("GW-005")]
FILE = "s3://acme/focus/a.csv"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with InProcess({"DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1"}) as running:
        yield running


@pytest.fixture(scope="module")
def store() -> Iterator[FakeStore]:
    with fake_s3(objects={"acme": {"focus/a.csv": written([row(1), row(2)])}}) as made:
        yield made


def account(source: Source, store: FakeStore) -> dict[str, Any]:
    """Register an account whose exports lie in the bucket."""
    config = {"export_url": "s3://acme/focus/", "endpoint": store.url, "region": store.region}
    credential = {"secret": json.dumps(store.secret)}
    given = {"provider": "aws", "identifier": str(uuid4().int)[:12], "name": "A", "config": config}
    return source.admin("POST", "/api/cloud-accounts", given | {"credential": credential}, 201)


def announcement(url: str = FILE) -> Any:
    """Return what a sender says of a new export."""
    return {"type": "cost.export_ready", "data": {"objects": [{"url": url}]}}


def tasks(source: Source, action: str, state: str = "") -> list[Any]:
    """Return the tasks of the tenant with an action."""
    return source.admin("GET", f"/api/tasks?action={action}" + (f"&state={state}" if state else ""))


@pytest.mark.parametrize("named", ["by its id", "by its identifier", "by where the file lies"])
def test_an_announced_export_has_its_account_synced_once(server: Server, store: FakeStore, named: str) -> None:
    first = Source.register(server)
    made = account(first, store)
    names = {"by its id": made["id"], "by its identifier": made["identifier"]}
    source = Source.register(server, tenant=first.tenant, **({"account": names[named]} if named in names else {}))

    answers = [source.send(announcement(), "e-1") for _ in range(2)]
    [event] = source.ended(1)
    [synced] = wait_for(lambda: tasks(source, "costs.sync", "succeeded"), "the sync")

    assert [answer.status_code for answer in answers] == [202, 202]
    assert (event["state"], len(tasks(source, "costs.sync"))) == ("processed", 1)
    assert source.admin("GET", f"/api/tasks/{synced['task_id']}")["result"]["files"] == 1


@pytest.mark.parametrize(("given", "url"), [({"account": "999999999999"}, FILE), ({}, "s3://other/focus/a.csv")])
def test_an_export_of_an_unknown_account_is_a_dead_letter(
    server: Server, store: FakeStore, given: dict[str, Any], url: str
) -> None:
    source = Source.register(server, **given)
    account(source, store)

    source.send(announcement(url))
    [event] = source.ended(1)

    assert (event["state"], event["error"]["code"], tasks(source, "costs.sync")) == ("dead", "NOT_FOUND", [])


def overspent(**changed: Any) -> Any:
    """Return what a sender says of a budget that is exceeded."""
    said = {"budget": "Production", "amount": "845.17", "limit": "1000.00", "currency": "USD"}
    return {"type": "budget.alert", "data": said | {"threshold_percent": "80.00", "forecast": False} | changed}


@pytest.mark.req("GW-104")
def test_an_announced_budget_becomes_one_alert_for_each_threshold(server: Server) -> None:
    source = Source.register(server)

    for number, changed in enumerate(({}, {"amount": "850"}, {"threshold_percent": "100.00"}, {"forecast": True})):
        source.send(overspent(**changed), f"e-{number}")
    ended = source.ended(4)

    assert [one["state"] for one in ended] == ["processed"] * 4
    [budget] = source.admin("GET", "/api/budgets")
    assert (budget["name"], budget["amount"], budget["thresholds"]) == ("Production", "1000", [])
    alerts = source.admin("GET", f"/api/budget-alerts?budget_id={budget['id']}")
    assert sorted((one["kind"], one["threshold"], one["reached"]) for one in alerts) == [
        ("actual", 80, "845.17"), ("actual", 100, "845.17"), ("forecast", 80, "845.17")
    ]  # fmt: skip


def test_an_announced_budget_is_an_alert_of_the_budget_of_its_name(server: Server) -> None:
    source = Source.register(server)
    given = {"name": "Production", "amount": "500", "currency": "USD"}
    own = source.admin("POST", "/api/budgets", given, 201)

    source.send(overspent())
    source.ended(1)

    assert [one["budget_id"] for one in source.admin("GET", "/api/budget-alerts")] == [own["id"]]


@pytest.mark.parametrize("changed", [{"amount": None}, {"limit": "0"}, {"currency": ""}, {"budget": " "}])
def test_an_alert_that_says_too_little_is_a_dead_letter(server: Server, changed: dict[str, Any]) -> None:
    source = Source.register(server)

    source.send(overspent(**changed))
    [event] = source.ended(1)

    assert (event["state"], event["error"]["code"]) == ("dead", "INVALID_PARAMS")
    assert source.admin("GET", "/api/budgets") == []
