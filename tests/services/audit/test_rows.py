"""Someone with all rights in the database changes a row that the chain speaks for: verify names that row alone."""

import base64
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import typst

from dragoman.services.approvals.store import PROMISED as APPROVAL_ROWS
from dragoman.services.audit.export_file import check_export
from dragoman.services.contracts.store import PROMISED as DOCUMENT_ROWS
from dragoman.services.grants.store import PROMISED as GRANT_ROWS
from dragoman.services.knowledge.store_git import PROMISED as KNOWLEDGE_ROWS
from dragoman.services.push.store import PROMISED as PUSH_ROWS
from dragoman.services.signatures.store import PROMISED as SIGNATURE_ROWS
from dragoman.services.subscriptions.store import PROMISED as SUBSCRIPTION_ROWS
from dragoman.services.tasks.engine.store_rows import PROMISED as TASK_ROWS
from dragoman_costs.recommendations.store import PROMISED as RECOMMENDATION_ROWS
from tests.doors.rest.calling import data
from tests.harness import Server, wait_for
from tests.rules.tree import ROOT
from tests.services.audit.ledger import Ledger
from tests.services.knowledge.test_servers import NO_PICKLE, enact
from tests.services.tasks.envelopes import ended, envelope, submit
from tests.tenants import done

Json = dict[str, Any]
PDF = base64.b64encode(typst.compile(b"= NDA")).decode()


@dataclass
class Contract:
    """A contract that was prepared, approved and sent, with the trail of its tenant."""

    ledger: Ledger
    document: str
    signature: str
    approval: str
    task: str
    grant: str
    link: str

    def ids(self) -> Json:
        return {
            "document": self.document, "signature": self.signature, "approval": self.approval, "task": self.task,
            "grant": self.grant, "link": self.link, "tenant": str(self.ledger.tenant),
        }  # fmt: skip


@pytest.fixture(scope="module")
def contract(server: Server) -> Contract:
    """One journey for all tests here: each undoes what it has changed."""
    ledger = Ledger(server)
    boss_token, olga_token = (server.token(tenant=ledger.slug, user=user, role=role) for user, role in (
        ("admin", "org_admin"), ("olga", "operator")))  # fmt: skip
    with server.client(boss_token) as boss, server.client(olga_token) as olga:
        document = done(boss.post("/api/documents", json={
            "content": PDF, "media_type": "application/pdf", "title": "NDA"}))  # fmt: skip
        signers = [{"name": "Ada", "email": "ada@example.com"}]
        about = {"type": "document", "id": document["id"], "sha256": document["sha256"]}
        prepare = envelope("signature.prepare", {"signers": signers, "seal": True}, resource=about)
        draft = ended(boss, submit(boss, prepare)["task_id"])["result"]
        send = envelope("signature.send", resource={"type": "signature", "id": draft["signature_id"]})
        approval, governed = approved(boss, olga, send)
        task = ended(boss, submit(boss, governed)["task_id"])
        assert task["state"] == "succeeded", task
        link = done(boss.post("/api/links", json={"signature_id": draft["signature_id"], "email": "ada@example.com"}))
        # Another request, to which a forger may move the link.
        plain = done(boss.post("/api/documents", json={"content": PDF, "media_type": "application/pdf", "title": "B"}))
        other = {"type": "document", "id": plain["id"], "sha256": plain["sha256"]}
        second = envelope("signature.prepare", {"signers": signers}, resource=other)
        assert ended(boss, submit(boss, second)["task_id"])["state"] == "succeeded"
        grant = data(olga.post("/api/grants", json={"agent": "bot"}), 201)
        enact(boss, {**NO_PICKLE, "id": "first"})
        enact(boss, NO_PICKLE)
    # What an export says of a row is worth something only once its records are sealed.
    wait_for(lambda: ledger.verify()["unsealed"] == 0, "the seals")
    return Contract(
        ledger, document["id"], draft["signature_id"], approval, task["task_id"], grant["grant_id"], link["id"]
    )


def approved(boss: httpx.Client, olga: httpx.Client, given: Json) -> tuple[str, Json]:
    """The approval that the refusal of an envelope asked for, and the envelope with it."""
    missing = {one["field"]: one for one in boss.post("/api/tasks", json=given).json()["details"]["missing"]}
    approval = done(boss.post("/api/approvals", json=missing["governance.approval_refs"]["request"]))["approval_id"]
    done(olga.post(f"/api/approvals/{approval}/decide", json={"decision": "approve", "reason": "read it"}))
    policies = missing.get("governance.policy_refs", {"policies": []})["policies"]
    return approval, {**given, "governance": {"policy_refs": policies, "approval_refs": [approval]}}


@contextmanager
def edited(contract: Contract, table: str, column: str, where: str, value: str | None = None) -> Generator[None]:
    """The row with another value, as long as it takes."""
    sql, which = contract.ledger.sql, f"tenant_id = $1 AND {where.format(**contract.ids())}"
    [(kind, full)] = sql(
        """SELECT data_type, udt_name FROM information_schema.columns WHERE table_schema = current_schema()
           AND table_name = $2 AND column_name = $3 AND $1::uuid IS NOT NULL""", table, column
    )  # fmt: skip
    [(before,)] = sql(f"SELECT {column}::text FROM {table} WHERE {which}")
    forged = value or ALLOWED.get((table, column)) or FORGED[kind].replace("{0}", column)
    sql(f"UPDATE {table} SET {column} = {forged} WHERE {which}")
    try:
        yield
    finally:
        sql(f"UPDATE {table} SET {column} = $2::text::{full} WHERE {which}", before)


# The row of the journey that is edited in each table: which one, and how the chain calls it.
ROWS = {
    "approvals": ("id = '{approval}'", "{approval}"),
    "approval_decisions": ("approval_id = '{approval}'", "{approval}/olga"),
    "documents": ("id = '{document}'", "{document}"),
    "document_versions": ("document_id = '{document}' AND version = 1", "{document}/1"),
    "signatures": ("id = '{signature}'", "{signature}"),
    "signature_history": ("signature_id = '{signature}' AND seq = 1", "{signature}/1"),
    "signature_evidence": ("signature_id = '{signature}' AND seq = 1", "{signature}/1"),
    "signing_links": ("id = '{link}'", "{link}"),
    "tasks": ("id = '{task}'", "{task}"),
    "delegations": ("task_id = '{task}'", "{task}"),
    "effects": ("(canonical_id, step) = (SELECT canonical_id, step FROM effects WHERE canonical_id = '{task}' LIMIT 1)",
                "{task}/"),
    "grants": ("id = '{grant}'", "{grant}"),
    "knowledge_refs": ("name = 'main'", "{tenant}/main"),
}  # fmt: skip
# What a forger writes, by the type of the column; and where the schema allows only some values.
FORGED = {
    "text": "'forged'", "jsonb": "'{\"forged\": 1}'", "integer": "coalesce({0}, 0) + 7", "boolean": "NOT {0}",
    "bytea": "'\\x00'", "uuid": "gen_random_uuid()", "ARRAY": "ARRAY['forged']",
    "timestamp with time zone": "coalesce({0}, now()) + interval '1 year'",
}  # fmt: skip
ALLOWED = {
    ("approvals", "state"): "'denied'",
    ("approval_decisions", "decision"): "'deny'",
    ("signatures", "status"): "'declined'",
    ("signing_links", "ended_as"): "'declined'",
    ("signing_links", "signature_id"): "(SELECT s.id FROM signatures s WHERE s.tenant_id = $1"
    " AND s.id <> signing_links.signature_id LIMIT 1)",
    (
        "document_versions",
        "sha256",
    ): "(SELECT v.sha256 FROM document_versions v WHERE v.tenant_id = $1 AND v.version > 1"
    " AND v.document_id = document_versions.document_id LIMIT 1)",
}
# Held by a rule of their own.
ELSEWHERE = {"document_contents"}
# Edited in tests/costs/test_remediation.py.
OF_COSTS = {"cost_recommendation_decisions"}


def told() -> dict[str, tuple[list[str], list[str]]]:
    """The columns of each table that docs/audit.md says are held, and are not."""
    lines = (ROOT / "docs" / "audit.md").read_text().splitlines()
    tables = (re.match(r"\| `(\w+)` \| ([^|]*) \| ([^|]*)\|$", line) for line in lines)
    return {
        found[1]: (found[2].split(", "), re.findall(r"[a-z_0-9]+(?=[,:])", re.sub(r":[^;]*", ":", found[3])))
        for found in tables
        if found
    }


# Of conversations and of who is told: test_conversations.py edits these, and those of subscriptions their own tests.
OF_CONVERSATIONS = {("tasks", "history"), ("tasks", "caller"), *(("push_configs", name) for name in (
    "version", "url", "scheme", "caller"))}  # fmt: skip
OF_SUBSCRIPTIONS = {("subscriptions", name) for name in ("url", "events", "state", "caller", "created_by")}
EDITS = [
    (table, column)
    for table, (held, _) in told().items()
    for column in held
    if table not in ELSEWHERE | OF_COSTS and (table, column) not in OF_CONVERSATIONS | OF_SUBSCRIPTIONS
]


def test_the_page_names_every_column_of_every_table_that_is_held(contract: Contract) -> None:
    """A column that is new must be held against the chain, or the page says why it promises nothing."""
    groups = (
        TASK_ROWS,
        APPROVAL_ROWS,
        DOCUMENT_ROWS,
        SIGNATURE_ROWS,
        GRANT_ROWS,
        PUSH_ROWS,
        KNOWLEDGE_ROWS,
        SUBSCRIPTION_ROWS,
        RECOMMENDATION_ROWS,
    )
    selects = {table.name: table.select for group in groups for table in group.tables}
    columns: dict[str, set[str]] = {}
    keys: dict[str, set[str]] = {}
    for row in contract.ledger.sql(
        """SELECT c.table_name, c.column_name, k.column_name IS NOT NULL AS is_key FROM information_schema.columns c
           LEFT JOIN information_schema.table_constraints t ON t.table_name = c.table_name
            AND t.table_schema = c.table_schema AND t.constraint_type = 'PRIMARY KEY'
           LEFT JOIN information_schema.key_column_usage k ON k.constraint_name = t.constraint_name
            AND k.table_schema = c.table_schema AND k.column_name = c.column_name
           WHERE c.table_schema = current_schema() AND $1::uuid IS NOT NULL"""
    ):
        (keys if row["is_key"] else columns).setdefault(row["table_name"], set()).add(row["column_name"])

    assert set(told()) == set(selects) | ELSEWHERE
    for table, (held, free) in told().items():
        assert sorted([*held, *free]) == sorted(columns[table] - keys[table]), table
        if table in selects:
            found = set(re.findall(r"[a-z_0-9]+", selects[table].partition(" FROM ")[0].partition(" AS key")[2]))
            assert set(held) <= found, table


def test_an_honest_database_agrees_with_its_chain(contract: Contract) -> None:
    report = contract.ledger.verify()

    assert report["ok"], report
    assert report["rows"] > 10


@pytest.mark.req("ORC-AUD-1")
@pytest.mark.parametrize(("table", "column"), EDITS, ids=[".".join(edit) for edit in EDITS])
def test_verify_names_the_row_that_was_edited_and_no_other(contract: Contract, table: str, column: str) -> None:
    where, key = ROWS[table]

    with edited(contract, table, column, where):
        report = contract.ledger.verify()
        offline = check_export(contract.ledger.export_lines(), public_key=None, trusted=[])

    named = [(one["table"], one["id"], one["column"]) for one in report["disagreements"]]
    assert (report["ok"], report["problems"], len(named)) == (False, [], 1), report
    assert (named[0][0], named[0][2]) == (table, column)
    assert named[0][1].startswith(key.format(**contract.ids()))
    assert report["disagreements"][0]["chain"] != report["disagreements"][0]["row"]
    assert [(one.table, one.key, one.column) for one in offline.promises.disagreements] == named


def test_policies_that_were_put_back_or_taken_away_are_named(contract: Contract) -> None:
    """A policy is what the main branch says: who moves that in the database ends it without a trace elsewhere."""
    ledger = contract.ledger
    [(tip,)] = ledger.sql("SELECT target FROM knowledge_refs WHERE tenant_id = $1 AND name = 'main'")
    earlier = next(
        rows[main]["target"] for one in reversed(ledger.records(operation="knowledge.accept"))
        if (main := f"knowledge_refs/{ledger.tenant}/main") in (rows := one["rows"])
    )  # fmt: skip

    ledger.sql("UPDATE knowledge_refs SET target = $2 WHERE tenant_id = $1 AND name = 'main'", earlier)
    put_back, offline = ledger.verify(), check_export(ledger.export_lines(), public_key=None, trusted=[])
    ledger.sql("DELETE FROM knowledge_refs WHERE tenant_id = $1 AND name = 'main'")
    taken_away = ledger.verify()
    ledger.sql("INSERT INTO knowledge_refs (tenant_id, name, target) VALUES ($1, 'main', $2)", tip)

    named = [(one["table"], one["id"], one["chain"], one["row"]) for one in put_back["disagreements"]]
    assert named == [("knowledge_refs", f"{ledger.tenant}/main", tip, earlier)]
    assert [(one.key, one.chain, one.row) for one in offline.promises.disagreements] == [named[0][1:]]
    assert [one["row"] for one in taken_away["disagreements"]] == ["this row is missing"]
    assert ledger.verify()["ok"]


def test_a_content_that_was_exchanged_under_its_hash_is_named(contract: Contract) -> None:
    where = "sha256 = (SELECT v.sha256 FROM document_versions v WHERE v.document_id = '{document}' AND v.version = 1)"

    with edited(contract, "document_contents", "content", where):
        [found] = contract.ledger.verify()["disagreements"]
        offline = contract.ledger.verify_alone()

    assert (found["table"], found["column"], found["chain"]) == ("document_contents", "content", found["id"])
    assert offline.returncode == 1
    assert f"CHANGED: document_contents {found['id']}: content is" in offline.stdout


def test_a_decider_who_was_exchanged_is_missed_and_the_other_one_is_unknown(contract: Contract) -> None:
    with edited(contract, "approval_decisions", "subject", ROWS["approval_decisions"][0], "'mallory'"):
        found = contract.ledger.verify()["disagreements"]
        by_command, offline = contract.ledger.verify_by_command(), contract.ledger.verify_alone()

    approval = contract.approval
    assert [(one["id"], one["column"], one["row"]) for one in found] == [
        (f"{approval}/mallory", "*", "no record knows this row"),
        (f"{approval}/olga", "*", "this row is missing"),
    ]
    assert (by_command.returncode, offline.returncode) == (1, 1)
    assert f"CHANGED: approval_decisions {approval}/olga: this row is missing" in offline.stdout
    assert f"CHANGED: approval_decisions {approval}/mallory: no record knows this row" in offline.stdout
    assert f"approval_decisions {approval}/olga: this row is missing" in " ".join(by_command.stdout.split())


def test_the_chain_says_who_approved_what_under_which_policies_and_with_which_evidence(contract: Contract) -> None:
    records = contract.ledger.records()

    [decided] = [one for one in records if one["operation"] == "approval.decide"]
    decision = decided["rows"][f"approval_decisions/{contract.approval}/olga"]
    approval = decided["rows"][f"approvals/{contract.approval}"]
    assert (decided["subject"], decision["decision"], decision["reason"]) == ("olga", "approve", "read it")
    assert approval["state"] == "approved"
    [sent] = [one for one in records if one["operation"] == "task.complete" and one["resource"] == contract.task]
    assert sent["details"]["approvals"] == [contract.approval]
    assert sent["details"]["approved_digest"] == approval["digest"]
    assert [one.partition(":")[0] for one in sent["details"]["evidence"]]
    assert any(name.startswith(f"effects/{contract.task}/") for name in sent["rows"])
