"""Draft, redline, execute: contract work handed over as envelopes, by every door."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.backstage import sql
from tests.doors.a2a.calling import A2A
from tests.doors.a2a.tool_calls import by_message
from tests.doors.mcp.calling import Mcp
from tests.doors.rest.calling import data, problem
from tests.harness import Server, wait_for
from tests.services.contracts.keeping import DOCX, PDF, add, content_of, docx, encoded, pdf
from tests.services.contracts.test_drafting import NDA, SERVICES
from tests.services.tasks.envelopes import envelope
from tests.tenants import new_tenant

ENDED = ("succeeded", "failed", "rejected", "cancelled", "dead_letter")
LONGER = {"find": "24 months", "replace": "36 months", "reason": "The project takes three years."}


@pytest.fixture(scope="module")
def tenant(server: Server) -> str:
    return new_tenant(server)


@pytest.fixture(scope="module")
def http(server: Server, tenant: str) -> Iterator[httpx.Client]:
    with server.client(server.token(tenant=tenant)) as client:
        yield client


def about(document: str, **fields: Any) -> dict[str, Any]:
    return {"resource": {"type": "document", "id": document, **fields}}


def nda(document: str, **changed: Any) -> dict[str, Any]:
    given = {"template": "mutual-nda", "fields": NDA | changed}
    return envelope("document.draft", given, **about(document))


def ended(http: httpx.Client, given: dict[str, Any]) -> dict[str, Any]:
    """How a task that is handed over ends."""
    task_id = data(http.post("/api/tasks", json=given), 201)["task_id"]

    def look() -> dict[str, Any] | None:
        found = data(http.get(f"/api/tasks/{task_id}"))
        return found if found["state"] in ENDED else None

    return wait_for(look, "the end of the task")


def result(http: httpx.Client, given: dict[str, Any]) -> dict[str, Any]:
    """What comes of a task that succeeds."""
    view = ended(http, given)
    assert view["state"] == "succeeded", view
    return view["result"]


def test_a_draft_is_a_pdf_that_is_kept_and_can_be_shown(http: httpx.Client) -> None:
    view = ended(http, nda("nda-kept"))

    made = view["result"]
    document = data(http.get("/api/documents/nda-kept"))
    content = content_of(http, made["document_id"])
    assert (made["version"], made["pages"], made["media_type"]) == (1, 2, PDF)
    assert made["sha256"] == document["sha256"] == hashlib.sha256(content).hexdigest()
    assert content.startswith(b"%PDF-")
    (version,) = document["versions"]
    assert (version["kind"], version["template"], version["fields"]) == ("drafted", "mutual-nda", NDA)
    assert version["task_id"] == view["task_id"]
    assert (document["matter_id"], document["state"]) == ("matter-1", "draft")
    assert b"for **24 months** from" in content_of(http, "nda-kept", source="true")
    assert [(one["kind"], one["sha256"], one["uri"]) for one in view["evidence"]] == [
        ("document", made["sha256"], made["uri"])
    ]


def test_the_same_fields_give_the_same_document(http: httpx.Client) -> None:
    one, other = (result(http, nda(name))["sha256"] for name in ("nda-a", "nda-b"))

    assert one == other


def test_what_is_wrong_with_the_fields_is_said_at_submission_all_at_once(http: httpx.Client) -> None:
    given = envelope("document.draft", {"template": "mutual-nda", "fields": {"party_a": "", "term_months": "two"}})

    refused = problem(http.post("/api/tasks", json=given | about("nda-wrong")), 400, "INVALID_PARAMS")

    assert sorted(error["field"] for error in refused["errors"]) == [
        "input.fields.effective_date",
        "input.fields.governing_law",
        "input.fields.party_a",
        "input.fields.party_b",
        "input.fields.term_months",
    ]
    problem(http.get("/api/documents/nda-wrong"), 404, "NOT_FOUND")


def test_a_character_that_no_font_has_fails_the_draft_for_good(http: httpx.Client) -> None:
    view = ended(http, nda("nda-tofu", party_a="Acme \U00012000"))

    assert (view["state"], view["attempt"], view["error"]["code"]) == ("failed", 1, "DOCUMENT_UNPRINTABLE")


def test_an_edit_becomes_the_next_version_with_a_redline_that_says_why(http: httpx.Client) -> None:
    drafted = result(http, nda("nda-edit"))
    given = {"edits": [LONGER, {"find": "England and Wales", "replace": "Germany"}], "reason": "As discussed."}

    made = result(http, envelope("document.redline", given, **about("nda-edit", version="1")))

    assert (made["available"], made["from_version"], made["to_version"]) == (True, 1, 2)
    assert [(one["clause"], one["before"], one["after"], one["reason"]) for one in made["changes"]] == [
        ("7. Term", "24", "36", "The project takes three years."),
        ("10. Governing law", "England and Wales", "Germany", "As discussed."),
    ]
    assert b"for **36 months** from" in content_of(http, "nda-edit", source="true")
    assert hashlib.sha256(content_of(http, "nda-edit", version=1)).hexdigest() == drafted["sha256"]
    shown = data(http.get(f"/api/documents/{made['redline']['document_id']}"))
    assert (shown["about"], shown["media_type"]) == (drafted["document_id"], PDF)
    marked = content_of(http, shown["id"], source="true").decode()
    assert "{--**24**--}{++**36**++}{>>The project takes three years.<<}" in marked


def test_two_versions_are_compared_and_nothing_new_is_made_of_them(http: httpx.Client) -> None:
    result(http, nda("nda-two"))
    result(http, nda("nda-two", term_months=12, party_b="Initech AG"))
    given = {"to_version": 2, "reasons": [{"about": "7. Term", "reason": "Shorter is enough."}]}

    made = result(http, envelope("document.redline", given, **about("nda-two")))

    assert {(one["before"], one["after"], one["reason"]) for one in made["changes"]} == {
        ("24", "12", "Shorter is enough."),
        ("Globex GmbH", "Initech AG", None),
    }
    assert data(http.get("/api/documents/nda-two"))["version"] == 2


def test_a_scan_has_no_text_and_the_redline_says_so(http: httpx.Client) -> None:
    scan = add(http, pdf(b"scan"), media_type=PDF)

    made = result(http, envelope("document.redline", {"text": "New words."}, **about(scan["id"])))

    assert (made["available"], made["reason"]) == (False, "NO_TEXT")
    assert data(http.get(f"/api/documents/{scan['id']}"))["version"] == 1


@pytest.mark.parametrize(
    ("content", "media_type", "kept_as"),
    [
        (b"# Terms\n\nBe *kind*  to all.\n", "text/markdown", "text/markdown"),
        (b"= Terms\n\nBe kind to  all.\n", "text/x-typst", "text/x-typst"),
        (docx("Terms", "Be kind to all."), DOCX, "text/markdown"),
    ],
)
def test_what_has_words_is_redlined_in_its_own_kind(
    http: httpx.Client, content: bytes, media_type: str, kept_as: str
) -> None:
    document = add(http, content, media_type=media_type)
    given = {"edits": [{"find": "all.", "replace": "everybody."}]}

    made = result(http, envelope("document.redline", given, **about(document["id"])))

    assert [(one["before"], one["after"]) for one in made["changes"]] == [("all", "everybody")]
    assert made["media_type"] == kept_as
    if media_type == kept_as:
        assert content_of(http, document["id"]) == content.replace(b"all.", b"everybody.")


def test_a_docx_that_is_a_bomb_is_unreadable_and_harms_nobody(http: httpx.Client) -> None:
    entities = '<!DOCTYPE a [<!ENTITY b "ha">]><w:document>&b;</w:document>'
    bomb = add(http, docx(xml=entities), media_type=DOCX)

    made = result(http, envelope("document.redline", {"text": "x"}, **about(bomb["id"])))

    assert (made["available"], made["reason"]) == (False, "UNREADABLE")


def test_words_that_are_not_there_fail_the_redline_and_change_nothing(http: httpx.Client) -> None:
    result(http, nda("nda-missing"))
    given = {"edits": [{"find": "no such words", "replace": ""}, {"find": "the", "replace": ""}]}

    view = ended(http, envelope("document.redline", given, **about("nda-missing")))

    assert (view["state"], view["attempt"], view["error"]["code"]) == ("failed", 1, "INVALID_PARAMS")
    assert [one["field"] for one in view["error"]["details"]["errors"]] == ["input.edits.0.find", "input.edits.1.find"]
    assert data(http.get("/api/documents/nda-missing"))["version"] == 1


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "input"),
        ({"text": "x", "to_version": 2}, "input"),
        ({"from_version": 2, "to_version": 2}, "input"),
        ({"edits": []}, "input.edits"),
        ({"to_version": 0}, "input.to_version"),
        ({"text": ""}, "input.text"),
    ],
)
def test_a_redline_of_nothing_is_refused_at_submission(http: httpx.Client, given: dict[str, Any], field: str) -> None:
    document = add(http)

    refused = http.post("/api/tasks", json=envelope("document.redline", given, **about(document["id"])))

    assert [error["field"] for error in problem(refused, 400, "INVALID_PARAMS")["errors"]] == [field]


def test_a_resource_that_is_not_what_the_caller_knows_is_refused_at_submission(
    server: Server, http: httpx.Client
) -> None:
    document = add(http, b"one", media_type="text/plain")
    at, tasks = document["id"], data(http.get("/api/tasks"))

    def redline(**resource: Any) -> httpx.Response:
        return http.post("/api/tasks", json=envelope("document.redline", {"text": "x"}, **resource))

    problem(redline(**about("nowhere")), 404, "NOT_FOUND")
    problem(redline(**about(at, version="7")), 404, "NOT_FOUND")
    problem(redline(**about(at, version="first")), 400, "INVALID_PARAMS")
    wrong = problem(redline(**about(at, version="1", sha256="0" * 64)), 409, "CONFLICT")
    with server.client(server.token(tenant=new_tenant(server))) as rival:
        foreign = rival.post("/api/tasks", json=envelope("document.redline", {"text": "x"}, **about(at)))
        problem(foreign, 404, "NOT_FOUND")

    assert wrong["details"]["reason"] == "CONTENT_MISMATCH"
    assert wrong["details"]["current"] == document["sha256"]
    assert data(http.get("/api/tasks")) == tasks


def by_a2a(server: Server, tenant: str) -> Any:
    caller = A2A(server, tenant=tenant)

    def hand_over(given: dict[str, Any]) -> str:
        task = caller.send({"message": {
            "role": "ROLE_USER", "messageId": given["idempotency_key"],
            "parts": [{"data": {"tool": "task_submit", "arguments": {"envelope": given}}}],
        }})  # fmt: skip
        return task["id"]

    return hand_over


def by_mcp(server: Server, tenant: str) -> Any:
    caller = Mcp(server, tenant=tenant)

    def hand_over(given: dict[str, Any]) -> str:
        called = caller.ask("tools/call", {"name": "task_submit", "arguments": {"envelope": given}})
        return called["structuredContent"]["task_id"]

    return hand_over


def by_shell(server: Server, tenant: str) -> Any:
    def hand_over(given: dict[str, Any]) -> str:
        said = server.cli("task", "submit", "--envelope", json.dumps(given), "--tenant", tenant, "--json")
        assert said.returncode == 0, said.stderr + said.stdout
        return json.loads(said.stdout)["task_id"]

    return hand_over


@pytest.mark.parametrize("door", [by_a2a, by_mcp, by_shell])
def test_a_contract_is_drafted_changed_and_fetched_by_every_door(
    server: Server, tenant: str, http: httpx.Client, door: Any, tmp_path: Path
) -> None:
    hand_over, name = door(server, tenant), f"services-{door.__name__}"
    draft = envelope("document.draft", {"template": "services-agreement", "fields": SERVICES}, **about(name))
    change = {"edits": [{"find": "EUR 12,500.00", "replace": "EUR 11,000.00", "reason": "A rebate."}]}

    def done(given: dict[str, Any]) -> dict[str, Any]:
        task_id = hand_over(given)
        at = f"/api/tasks/{task_id}"
        return wait_for(lambda: (found := data(http.get(at)))["state"] in ENDED and found, "the end")

    drafted = done(draft)
    changed = done(envelope("document.redline", change, **about(name, version="1", sha256=drafted["result"]["sha256"])))
    written = server.cli("document", "content", name, "-o", str(tmp_path / "x.pdf"), "--tenant", tenant)

    assert (drafted["state"], changed["state"]) == ("succeeded", "succeeded"), (drafted, changed)
    assert [(one["before"], one["after"], one["reason"]) for one in changed["result"]["changes"]] == [
        ("12,500.00", "11,000.00", "A rebate.")
    ]
    assert written.returncode == 0, written.stderr
    assert hashlib.sha256((tmp_path / "x.pdf").read_bytes()).hexdigest() == changed["result"]["sha256"]


def test_the_templates_are_listed_with_their_fields(server: Server, tenant: str, http: httpx.Client) -> None:
    listed = {one["template"]: one for one in data(http.get("/api/templates"))}
    told = by_message(A2A(server, tenant=tenant))("template_list")

    assert set(listed) == {"mutual-nda", "services-agreement"}
    assert set(listed["mutual-nda"]["fields"]["required"]) == set(NDA)
    assert set(listed["services-agreement"]["fields"]["required"]) == set(SERVICES)
    assert {one["template"] for one in told["items"]} == set(listed)


def test_plain_words_list_the_documents(server: Server) -> None:
    tenant = new_tenant(server)
    with server.client(server.token(tenant=tenant)) as client:
        made = add(client, title="Terms of delivery")

    task = A2A(server, tenant=tenant).send(
        {"message": {"role": "ROLE_USER", "messageId": "m-1", "parts": [{"text": "Which documents are there?"}]}}
    )

    assert made["id"] in json.dumps(task["status"]["message"])


def test_a_document_out_for_signature_is_not_drafted_over(server: Server, http: httpx.Client) -> None:
    result(http, nda("nda-sent"))
    _move(server, "nda-sent", "sent")

    refused = http.post("/api/tasks", json=nda("nda-sent", term_months=1))
    change = {"document_id": "nda-sent", "media_type": "text/plain", "content": encoded(b"x")}
    closed = http.post("/api/documents", json=change)

    assert problem(refused, 409, "CONFLICT")["details"] == {"reason": "DOCUMENT_CLOSED", "state": "sent"}
    assert problem(closed, 409, "CONFLICT")["details"] == {"reason": "DOCUMENT_CLOSED", "state": "sent"}


def _move(server: Server, name: str, state: str) -> None:
    sql(server, "UPDATE documents SET state = $2 WHERE name = $1", name, state)


def test_a_document_is_executed_with_an_approval_and_something_to_show(
    server: Server, tenant: str, http: httpx.Client
) -> None:
    result(http, nda("nda-executed"))
    scan = add(http, pdf(b"signed by hand"), media_type=PDF)
    shown = {"evidence": [{"sha256": scan["sha256"], "note": "Signed by hand."}]}
    given = envelope("document.mark_executed", shown, **about("nda-executed", version="1"))

    refused = problem(http.post("/api/tasks", json=given), 403, "GOVERNANCE_CONTEXT_REQUIRED")
    request = next(one["request"] for one in refused["details"]["missing"] if "request" in one)
    approval = data(http.post("/api/approvals", json=request), 201)["approval_id"]
    with server.client(server.token(tenant=tenant, user="bob")) as other:
        data(other.post(f"/api/approvals/{approval}/decide", json={"decision": "approve"}))
    governance = {"policy_refs": ["contracts-approval@1"], "approval_refs": [approval]}
    done = ended(http, given | {"governance": governance})

    assert (done["state"], done["result"]["state"]) == ("succeeded", "executed"), done
    assert [(one["kind"], one["sha256"]) for one in done["evidence"]] == [("document", scan["sha256"])]
    document = data(http.get("/api/documents/nda-executed"))
    assert (document["state"], document["executed_version"]) == ("executed", 1)
