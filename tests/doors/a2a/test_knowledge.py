"""Knowledge as an agent meets it, over A2A 1.0 and over the plain paths of 0.1."""

from typing import Any

import pytest

from tests.doors.a2a.calling import A2A
from tests.doors.a2a.tool_calls import Call, by_message, by_seed_path
from tests.doors.rest.calling import new_tenant
from tests.harness import Server

DECISION = {
    "type": "adr",
    "title": "Use PostgreSQL everywhere",
    "content": "One database for everything.\n\nIt has vectors and full text.",
    "severity": "block",
    "tags": ["storage"],
    "metadata": {"authors": ["ada"]},
    "constraints": [
        {"operator": "must_not_use", "target": "import", "pattern": "sqlite3", "message": "Use the pool."},
        {"operator": "must_not_use", "target": "dependency", "pattern": "lodash", "version": "<4.17.21",
         "severity": "warn"},
    ],
}  # fmt: skip


@pytest.fixture(params=[by_message, by_seed_path], ids=["1.0", "0.1"])
def call(request: pytest.FixtureRequest, served: Server) -> Call:
    """A caller in a tenant of its own, who may decide."""
    return request.param(A2A(served, tenant=new_tenant(served)["slug"]))


@pytest.mark.req("MKS-KN-1", "A2A-SK-2")
def test_query_finds_items_by_words_type_and_layer_with_their_summaries(call: Call) -> None:
    item_id = call("knowledge_propose", **DECISION)["id"]
    call("knowledge_accept", id=item_id)
    call("knowledge_propose", type="pattern", title="Retry with jitter", content="Back off.", layer="team",
         layer_id="core")  # fmt: skip

    found = call("knowledge_query", query="which databases do we use?", type="adr", layer="company")["items"]
    elsewhere = call("knowledge_query", query="which databases do we use?", layer="team")["items"]

    expected = {"id": item_id, "type": "adr", "layer": "company", "title": DECISION["title"],
                "summary": "One database for everything.", "status": "accepted"}  # fmt: skip
    assert [{name: item[name] for name in expected} for item in found] == [expected]
    assert 0 < found[0]["score"] <= 1
    assert elsewhere == []


@pytest.mark.req("MKS-KN-2")
def test_show_gives_content_constraints_and_metadata_and_history_on_request(call: Call) -> None:
    item_id = call("knowledge_propose", **DECISION)["id"]
    call("knowledge_accept", id=item_id, reason="agreed")

    shown = call("knowledge_show", id=item_id, include_history=True)

    assert shown["content"] == DECISION["content"]
    assert shown["metadata"] == {"authors": ["ada"]}
    assert [(one["operator"], one["pattern"]) for one in shown["constraints"]] == [
        ("must_not_use", "sqlite3"),
        ("must_not_use", "lodash"),
    ]
    assert [one["message"].split(":")[0] for one in shown["history"]] == [f"Accept {item_id}", f"Propose {item_id}"]
    assert {one["author"] for one in shown["history"]} == {"admin"}


@pytest.mark.req("MKS-KN-3")
def test_check_finds_violations_with_severity_and_place_and_passes_without_a_block(call: Call) -> None:
    item_id = call("knowledge_propose", **DECISION)["id"]
    call("knowledge_accept", id=item_id)
    old = [{"name": "lodash", "version": "4.17.20"}]

    failed = call("knowledge_check", files=[{"path": "src/a.py", "content": "import os\nimport sqlite3\n"}],
                  dependencies=old)  # fmt: skip
    passed = call("knowledge_check", dependencies=old)

    assert failed["passed"] is False
    assert failed["violations"] == [
        {"item_id": item_id, "item_title": DECISION["title"], "constraint": "must_not_use import sqlite3",
         "severity": "block", "message": "Use the pool.", "location": {"file": "src/a.py", "line": 2}},
        {"item_id": item_id, "item_title": DECISION["title"], "constraint": "must_not_use dependency lodash <4.17.21",
         "severity": "warn", "message": "must_not_use dependency lodash <4.17.21",
         "location": {"file": None, "line": None}},
    ]  # fmt: skip
    assert passed["passed"] is True
    assert [one["severity"] for one in passed["violations"]] == ["warn"]


def test_a_proposal_is_not_in_force_and_can_be_tried(call: Call) -> None:
    item_id = call("knowledge_propose", **DECISION)["id"]
    files = [{"path": "a.py", "content": "import sqlite3\n"}]

    in_force = call("knowledge_check", files=files)
    tried = call("knowledge_check", files=files, item_ids=[item_id])

    assert (in_force["passed"], tried["passed"]) == (True, False)


def test_an_accepted_decision_is_superseded_and_never_rewritten(call: Call) -> None:
    old = call("knowledge_propose", **DECISION)["id"]
    call("knowledge_accept", id=old)

    refused = call("knowledge_propose", **DECISION, id=old)
    new = call("knowledge_propose", type="adr", title="Use PostgreSQL 18", content="Newer.", supersedes=[old])["id"]
    call("knowledge_accept", id=new)

    assert (refused["error"]["code"], refused["error"]["details"]["reason"]) == ("CONFLICT", "IMMUTABLE")
    ended = call("knowledge_show", id=old)
    assert (ended["status"], ended["superseded_by"]) == ("superseded", new)
    assert call("knowledge_check", files=[{"path": "a.py", "content": "import sqlite3"}])["passed"] is True


@pytest.mark.parametrize(
    ("name", "arguments", "field"),
    [
        ("knowledge_propose", {"document": "---\nid: [\n---\nx"}, "front_matter"),
        ("knowledge_propose", {"document": "---\nid: x\nstatus: maybe\n---\nx"}, "status"),
        ("knowledge_propose", {"document": "---\nid: ../../x\n---\nx"}, "id"),
        ("knowledge_propose", {"document": "---\nid: x\na: &a [1]\nb: *a\n---\nx"}, "front_matter"),
        ("knowledge_propose", {**DECISION, "id": "../x"}, "id"),
        ("knowledge_propose", {**DECISION, "layer": "team"}, "layer_id"),
        ("knowledge_propose", {**DECISION, "layer": "galaxy"}, "layer"),
        ("knowledge_propose", {**DECISION, "type": "poem"}, "type"),
        ("knowledge_propose", {**DECISION, "content": "x" * 300_000}, "content"),
        ("knowledge_propose", {**DECISION, "supersedes": ["nothing"]}, "supersedes"),
        ("knowledge_propose",
         {**DECISION, "constraints": [{"operator": "must_match", "target": "code", "pattern": r"(a)\1"}]},
         "constraints.0.pattern"),
        ("knowledge_check", {"files": [{"path": "../../etc/passwd", "content": ""}]}, "files.0.path"),
        ("knowledge_check", {"files": [{"path": "/etc/passwd", "content": ""}]}, "files.0.path"),
        ("knowledge_check", {"min_severity": "dire"}, "min_severity"),
        ("knowledge_query", {"status": ["undecided"]}, "status"),
        ("knowledge_query", {"limit": 0}, "limit"),
        ("knowledge_show", {"id": "../../secret"}, "id"),
    ],
)  # fmt: skip
def test_bad_input_is_named_by_its_field(a2a: A2A, name: str, arguments: dict[str, Any], field: str) -> None:
    error = by_message(a2a)(name, **arguments)["error"]

    assert error["code"] == "INVALID_PARAMS"
    assert error["details"]["errors"][0]["field"].startswith(field)


def test_who_may_not_accept_is_refused(served: Server) -> None:
    agent = by_message(A2A(served, role="agent"))
    item_id = agent("knowledge_propose", **DECISION, id="adr-of-an-agent")["id"]

    refused = agent("knowledge_accept", id=item_id)

    assert refused["error"]["code"] == "UNAUTHORIZED"


def test_another_tenant_finds_nothing(a2a: A2A, rival: A2A) -> None:
    item_id = by_message(a2a)("knowledge_propose", **DECISION, id="adr-secret")["id"]

    theirs = by_message(rival)

    assert theirs("knowledge_query", query="database")["total_count"] == 0
    assert theirs("knowledge_show", id=item_id)["error"]["code"] == "NOT_FOUND"
    assert theirs("knowledge_check", item_ids=[item_id])["error"]["code"] == "NOT_FOUND"
