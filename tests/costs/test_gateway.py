"""Agents of others ask for costs: a bare query at the gateway is a structured query, over real TLS."""

from datetime import date
from decimal import Decimal

import pytest

from tests.costs.billing import Row, store, tenant_of
from tests.doors.gateway import test_gateway as gate
from tests.doors.gateway.test_gateway import Agents

pytestmark = [pytest.mark.req("GW-014"), pytest.mark.req("GW-015")]
agents, authority, gateway, server_certificate = gate.agents, gate.authority, gate.gateway, gate.server_certificate
QUERY = {"query": {"dimensions": ["service"], "measures": ["effective", "row_count"]}}


def test_a_bare_query_of_an_agent_is_answered_from_the_costs_of_its_tenant(agents: Agents) -> None:
    shown = agents.issue()
    agent = agents.register(shown)
    tenant = tenant_of(agents.home, agents.slug)
    store(agents.home, tenant, [Row(date(2026, 9, 1), Decimal("0.0000000001")), Row(date(2026, 9, 2), Decimal("12.3"))])

    told = agents.ask(shown, agent["secret"], "/a2a/v1/capabilities", None).json()
    answered = agents.ask(shown, agent["secret"], body=QUERY)

    output = answered.json()["task"]["artifacts"][0]["parts"][0]["data"]
    assert told["query"] == "costs_query"
    assert {skill["tool"] for skill in told["skills"]} >= {"costs_query", "costs_schema"}
    assert output["rows"] == [
        {"service": "Compute", "currency": "USD", "effective": "12.3000000001", "row_count": 2}
    ]  # fmt: skip


def test_an_agent_needs_the_scope_and_is_told_what_is_wrong(agents: Agents) -> None:
    narrow, wide = agents.issue(), agents.issue()
    without = agents.register(narrow, scopes=["read:knowledge"])
    agent = agents.register(wide)

    refused = agents.ask(narrow, without["secret"], body=QUERY)
    wrong = agents.ask(wide, agent["secret"], body={"query": {"dimensions": ["servce"]}})

    assert (refused.status_code, refused.json()["code"]) == (403, "UNAUTHORIZED")
    assert (wrong.status_code, wrong.json()["code"]) == (400, "INVALID_PARAMS")
    assert wrong.json()["errors"][0]["field"] == "dimensions.0"
