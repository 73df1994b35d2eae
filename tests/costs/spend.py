"""Spend that is made up for tests, in the manner of bills: loaded by the demo, or changed behind its back."""

import json
from datetime import date, timedelta
from typing import Any

import httpx

from dragoman.infra.ids import new_id
from dragoman_costs.slices.store import ROLL_UP
from tests.backstage import sql
from tests.doors.rest.calling import data
from tests.harness import Server, wait_for
from tests.services.tasks.envelopes import ended

Json = dict[str, Any]


def load_demo(client: httpx.Client, **fields: Any) -> Json:
    """Load the demo, and return what it says when it is done."""
    started = data(client.post("/api/costs/demo", json={"months": 2, **fields}), 202)
    task = ended(client, started["task_id"])
    assert task["state"] == "succeeded", task
    return task["result"]


def every(client: httpx.Client, path: str, **filters: Any) -> list[Json]:
    """Return all pages of a list."""
    found: list[Json] = []
    cursor: str | None = None
    while True:
        page = client.get(path, params={"limit": 50, **filters, **({"cursor": cursor} if cursor else {})})
        assert page.status_code == 200, page.text
        found += page.json()["data"]
        if (cursor := page.json()["meta"]["nextCursor"]) is None:
            return found


def settled(client: httpx.Client, recommendation_id: str) -> Json:
    """Return a recommendation once no task is under way for it."""

    def look() -> Json | None:
        found = data(client.get(f"/api/recommendations/{recommendation_id}"))
        return found if not found["executing"] else None

    return wait_for(look, "the end of its task")


class Bills:
    """Bills of one account, which a test writes row by row, past all imports."""

    def __init__(self, server: Server, tenant_id: str) -> None:
        self._server = server
        self.tenant_id = tenant_id
        self.account_id = new_id()
        sql(
            server,
            """INSERT INTO cost_accounts (tenant_id, id, provider, identifier, name, status, credential_kind,
                   credential_status, created_by)
               VALUES ($1, $2, 'aws', '123456789012', 'Test', 'active', 'none', 'missing', 'test')""",
            tenant_id,
            self.account_id,
        )

    def write(self, rows: list[Json]) -> None:
        """Show these rows in place of all that were shown before; the roll-ups are made of them."""
        slice_id, period = new_id(), date(2026, 1, 1)
        sql(
            self._server,
            """INSERT INTO cost_slices (tenant_id, id, account_id, period, part, state, import_id, file_name,
                   file_sha256)
               VALUES ($1, $2, $3, $4, '', 'loading', $2, 'test.csv', 'x')""",
            self.tenant_id,
            slice_id,
            self.account_id,
            period,
        )
        numbered = [{"line": line, **row} for line, row in enumerate(rows, 1)]
        sql(self._server, ADD_ROWS, self.tenant_id, slice_id, json.dumps(numbered))
        for statement in ROLL_UP:
            account = (self.account_id,) if "$3" in statement else ()
            sql(self._server, statement, self.tenant_id, slice_id, *account)
        moved = "UPDATE cost_slices SET state = $2 WHERE account_id = $1 AND state = $3"
        sql(self._server, moved, self.account_id, "replaced", "current")
        sql(self._server, moved, self.account_id, "current", "loading")


ADD_ROWS = """
INSERT INTO cost_rows (tenant_id, slice_id, line, day, charge_start, billed, effective, list, contracted, currency,
    provider, service, service_category, region, sub_account, sub_account_name, resource_id, resource_name,
    resource_type, charge_category, charge_description, pricing_category, quantity, unit, commitment_id,
    commitment_status, tags, extra)
SELECT $1, $2, r.line, r.day, r.day, r.amount, r.amount, r.amount, r.amount, 'USD', 'AWS',
    coalesce(r.service, 'Amazon Elastic Compute Cloud'), 'Compute', 'eu-west-1', 'a', 'a', r.resource, r.resource,
    coalesce(r.type, 'Virtual machine'), 'Usage', 'use', 'Standard', coalesce(r.quantity, 24),
    coalesce(r.unit, 'Hours'), '', '', coalesce(r.tags, '{}'), coalesce(r.extra, '{}')
FROM jsonb_to_recordset($3::jsonb) AS r (line int, day date, amount numeric, resource text, service text, type text,
    quantity numeric, unit text, tags jsonb, extra jsonb)"""


def days(first: date, count: int, **fields: Any) -> list[Json]:
    """Return a row of these fields for each day."""
    return [{"day": (first + timedelta(days=index)).isoformat(), **fields} for index in range(count)]
