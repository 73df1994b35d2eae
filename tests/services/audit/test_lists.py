"""What was done to a thing, by somebody, by an action: found on every door, page by page, along an index."""

import base64
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
import typst

from dragoman.services.audit.store_lists import list_statement
from tests.doors.a2a.calling import A2A, tool
from tests.doors.mcp.calling import Mcp
from tests.harness import Server
from tests.services.audit.ledger import Ledger
from tests.services.tasks.envelopes import ended, envelope, submit
from tests.tenants import done

Json = dict[str, Any]
TENANT = uuid4()
FILL = """
INSERT INTO audit_records (tenant_id, id, at, operation, outcome, subject, resource, action, about, body, mac)
SELECT $1, md5(n::text)::uuid, now(), CASE n WHEN 7 THEN 'rare.done' ELSE 'common.done' END,
       CASE n WHEN 7 THEN 'failed' ELSE 'done' END, CASE n WHEN 7 THEN 'rare' ELSE 'common' END, 'r-' || n,
       CASE WHEN n % 2 = 0 THEN 'common.action' END, CASE WHEN n % 2 = 0 THEN 'a-' || n END, '', ''
FROM generate_series(1, 20000) AS n"""
PLANS = {
    "resource": ("r-4000", {"audit_records_by_resource", "audit_records_by_about"}),
    "actor": ("rare", {"audit_records_by_subject"}),
    "subject": ("rare", {"audit_records_by_subject"}),
    "operation": ("rare.done", {"audit_records_by_operation"}),
    "action": ("rare.done", {"audit_records_by_operation", "audit_records_by_action"}),
    "outcome": ("failed", {"audit_records_not_done"}),
    "before_id": (UUID(int=2**128 - 1), {"audit_records_pkey"}),
}


@pytest.fixture(scope="module")
async def connection(schema_url: str) -> AsyncIterator[asyncpg.Connection]:
    """To a long trail."""
    opened = await asyncpg.connect(schema_url)
    await opened.execute("ALTER TABLE audit_records DISABLE TRIGGER USER")
    await opened.execute(FILL, TENANT)
    await opened.execute("ANALYZE audit_records")
    yield opened
    await opened.execute("DELETE FROM audit_records WHERE tenant_id = $1", TENANT)
    await opened.close()


@pytest.mark.anyio
@pytest.mark.parametrize("name", PLANS)
async def test_a_list_goes_along_the_index_of_its_filter(connection: asyncpg.Connection, name: str) -> None:
    value, indexes = PLANS[name]

    await connection.execute("SET ROLE dragoman_app")
    try:
        rows = await connection.fetch(f"EXPLAIN {list_statement({name: value})}", TENANT, 51, value)
    finally:
        await connection.execute("RESET ROLE")

    plan = "\n".join(row[0] for row in rows)
    assert set(re.findall(r"(?:using|Scan on) (audit_records_\w+)", plan)) == indexes, plan
    assert "Seq Scan" not in plan


@pytest.fixture(scope="module")
def work(server: Server) -> Json:
    """A document that its owner added and a task looked at, with the trail of their tenant."""
    ledger = Ledger(server)
    content = base64.b64encode(typst.compile(b"= NDA")).decode()
    signers = {"signers": [{"name": "Ada", "email": "ada@example.com"}], "seal": True}
    with server.client(server.token(tenant=ledger.slug, user="olga", role="org_admin")) as olga:
        given = {"content": content, "media_type": "application/pdf", "title": "NDA"}
        document = done(olga.post("/api/documents", json=given))
        about = {"type": "document", "id": document["id"], "sha256": document["sha256"]}
        prepare = envelope("signature.prepare", signers, resource=about, actor={"id": "olga", "type": "human"})
        task = ended(olga, submit(olga, prepare)["task_id"])
    return {"ledger": ledger, "document": document["id"], "task": task["task_id"]}


def by_rest(ledger: Ledger, filters: Json) -> Json:
    answer = ledger.client.get("/api/audit", params=filters).json()
    return {"items": answer["data"], "next_cursor": answer["meta"].get("nextCursor")}


def by_mcp(ledger: Ledger, filters: Json) -> Json:
    return Mcp(ledger.server, tenant=ledger.slug).call("audit_list", filters)["structuredContent"]


def by_a2a(ledger: Ledger, filters: Json) -> Json:
    task = A2A(ledger.server, tenant=ledger.slug).send(tool("audit_list", filters))
    return task["artifacts"][0]["parts"][0]["data"]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close what the doors opened."""
    yield
    for client in (*Mcp.opened, *A2A.opened):
        client.close()
    Mcp.opened.clear()
    A2A.opened.clear()


Ask = Callable[[Ledger, Json], Json]


@pytest.mark.req("ORC-AUD-1")
@pytest.mark.parametrize("ask", [by_rest, by_mcp, by_a2a])
def test_records_are_found_by_resource_actor_and_action_on_every_door(work: Json, ask: Ask) -> None:
    ledger = work["ledger"]

    def names(**filters: Any) -> list[str]:
        return [record["operation"] for record in ask(ledger, filters)["items"]]

    assert names(resource=work["document"]) == ["task.submit", "document.add"]
    assert names(resource=work["task"])[-1] == names(action="signature.prepare")[-1] == "task.submit"
    assert names(resource=work["task"]) == names(action="signature.prepare", actor="olga")
    assert names(action="document.add") == names(operation="document.add") == ["document.add"]
    assert names(actor="nobody") == names(resource="nothing") == names(action="no.action") == []


@pytest.mark.parametrize("ask", [by_rest, by_mcp, by_a2a])
def test_a_filtered_list_goes_on_at_its_cursor(work: Json, ask: Ask) -> None:
    ledger, found, cursor = work["ledger"], list[str](), None
    whole = ask(ledger, {"resource": work["task"]})["items"]

    for _ in range(len(whole)):
        page = ask(ledger, {"resource": work["task"], "limit": 1} | ({"cursor": cursor} if cursor else {}))
        found += [record["id"] for record in page["items"]]
        cursor = page["next_cursor"]

    assert found == [record["id"] for record in whole]
    assert cursor is None


def test_the_shell_lists_by_the_same_filters(work: Json) -> None:
    ledger: Ledger = work["ledger"]
    wanted = ("--resource", work["document"], "--actor", "olga", "--action", "document.add")

    listed = ledger.server.cli("audit", "list", "--tenant", ledger.slug, "--json", *wanted)

    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.count('"operation"') == 1
    assert work["document"] in listed.stdout


def test_verify_names_a_record_that_is_hidden_from_these_lists(work: Json) -> None:
    ledger: Ledger = work["ledger"]
    which = "tenant_id = $1 AND operation = 'task.submit'"

    for column in ("resource", "action", "about"):
        [(before,)] = ledger.sql(f"SELECT {column} FROM audit_records WHERE {which}")
        ledger.sql(f"UPDATE audit_records SET {column} = NULL WHERE {which}")
        try:
            [problem] = ledger.verify()["problems"]
        finally:
            ledger.sql(f"UPDATE audit_records SET {column} = $2 WHERE {which}", before)
        assert "listed" in problem["reason"] or "says it is" in problem["reason"]
    assert ledger.verify()["ok"]
