"""What is approved is what is executed: consent to a document is bound to its version and its content."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.backstage import add_tenant, sql
from tests.doors.a2a.calling import A2A
from tests.doors.a2a.tool_calls import by_message
from tests.doors.mcp.calling import Mcp
from tests.doors.rest.calling import data, problem
from tests.harness import Server, wait_for
from tests.services.approvals.asking import Office, decide
from tests.services.contracts.keeping import encoded
from tests.services.tasks.envelopes import ended, envelope, submit

Json = dict[str, Any]
CHEAP, DEAR = "We pay EUR 1,000.\n", "We pay EUR 9,000,000.\n"


@pytest.fixture
def office(server: Server) -> Iterator[Office]:
    opened = Office(server, add_tenant(server))
    yield opened
    opened.close()
    while A2A.opened:
        A2A.opened.pop().close()
    while Mcp.opened:
        Mcp.opened.pop().close()


def write(who: httpx.Client, text: str, **fields: Any) -> Json:
    given = {"content": encoded(text.encode()), "media_type": "text/markdown", **fields}
    return data(who.post("/api/documents", json=given), 201)


def contract(office: Office) -> Json:
    """A contract of which version 1 is cheap."""
    return write(office.person("ann"), CHEAP, title="Contract", name=f"contract-{uuid4().hex[:8]}")


def execution(document: Json, **governance: Any) -> Json:
    """An envelope of ann's that names the document and neither version nor hash."""
    resource = {"type": "document", "id": document["name"]}
    given = {"evidence": [{"sha256": document["sha256"]}]}
    actor = {"id": "ann", "type": "human"}
    made = envelope("document.mark_executed", given, resource=resource, actor=actor)
    return made | ({"governance": governance} if governance else {})


def asked_for(office: Office, given: Json) -> Json:
    """The approval that the refusal of the envelope proposes."""
    refused = problem(office.person("ann").post("/api/tasks", json=given), 403, "GOVERNANCE_CONTEXT_REQUIRED")
    request = next(one["request"] for one in refused["details"]["missing"] if "request" in one)
    return data(office.person("ann").post("/api/approvals", json=request), 201)


def governed(given: Json, approval: Json) -> Json:
    refs = {"policy_refs": ["contracts-approval@1"], "approval_refs": [approval["approval_id"]]}
    return given | {"governance": refs}


def test_the_server_binds_an_approval_to_version_and_hash_and_shows_the_text(office: Office) -> None:
    document = contract(office)

    approval = asked_for(office, execution(document))

    assert approval["resource"] == {
        "type": "document", "id": document["name"], "version": "1", "sha256": document["sha256"]
    }  # fmt: skip
    shown = approval["shows"]["document"]
    assert (shown["text"], shown["changes"], shown["title"]) == (CHEAP, None, "Contract")


def test_a_document_that_moved_after_the_approval_is_not_acted_on(office: Office) -> None:
    document = contract(office)
    given = execution(document)
    approval = asked_for(office, given)
    data(decide(office.person("bob"), approval))
    write(office.person("ann"), DEAR, document_id=document["id"])

    refused = problem(office.person("ann").post("/api/tasks", json=governed(given, approval)), 409, "APPROVAL_STALE")

    assert (refused["details"]["reason"], refused["details"]["current"]["version"]) == ("TARGET_MOVED", "2")
    assert data(office.person("ann").get(f"/api/documents/{document['id']}"))["state"] == "draft"


def test_a_document_that_moved_while_a_task_waited_is_not_approved_and_the_task_is_rejected(office: Office) -> None:
    document = contract(office)
    given = execution(document)
    approval = asked_for(office, given)
    task = submit(office.person("ann"), governed(given, approval))
    write(office.person("ann"), DEAR, document_id=document["id"])

    refused = problem(decide(office.person("bob"), approval), 409, "APPROVAL_STALE")

    assert refused["details"]["reason"] == "TARGET_MOVED"
    assert office.show(approval)["state"] == "stale"
    view = ended(office.person("ann"), task["task_id"])
    assert (view["state"], view["error"]["code"]) == ("rejected", "APPROVAL_STALE")


def test_an_attempt_whose_document_moved_since_the_decision_is_rejected_and_the_approval_goes_stale(
    office: Office,
) -> None:
    """Approved in the database, as by a decider who looked a moment before: the attempt finds the newer version."""
    document = contract(office)
    given = execution(document)
    approval = asked_for(office, given)
    task = submit(office.person("ann"), governed(given, approval))
    write(office.person("ann"), DEAR, document_id=document["id"])
    sql(office.server, "UPDATE approvals SET state = 'approved' WHERE id = $1::text::uuid", approval["approval_id"])

    view = ended(office.person("ann"), task["task_id"])

    assert (view["state"], view["error"]["details"]["reason"]) == ("rejected", "TARGET_MOVED")
    stale = wait_for(lambda: (row := office.show(approval))["state"] == "stale" and row, "the approval to go stale")
    assert stale["closed_because"].startswith("resource moved: ")
    assert data(office.person("ann").get(f"/api/documents/{document['id']}"))["executed_version"] is None


def test_input_and_resource_are_checked_before_anyone_is_asked(office: Office) -> None:
    document = contract(office)
    request = {"action": "document.mark_executed", "matter_id": "m-1"}
    ann = office.person("ann")
    there, gone = ({"type": "document", "id": name} for name in (document["name"], "no-such"))

    problem(ann.post("/api/approvals", json={**request, "resource": gone}), 404, "NOT_FOUND")
    problem(ann.post("/api/approvals", json={**request, "resource": {**there, "sha256": "0" * 64}}), 409, "CONFLICT")
    wrong = problem(
        ann.post("/api/approvals", json={**request, "resource": there, "input": {"version": "x"}}), 400,
        "INVALID_PARAMS",
    )  # fmt: skip

    assert [error["field"] for error in wrong["errors"]] == ["input.version"]
    assert data(ann.get("/api/approvals")) == []


def test_every_door_shows_the_decider_what_changed_since_the_version_approved_last(office: Office) -> None:
    document = contract(office)
    first = asked_for(office, execution(document))
    data(decide(office.person("bob"), first))
    write(office.person("ann"), CHEAP + "In March.\n", document_id=document["id"])
    write(office.person("ann"), DEAR + "In March.\n", document_id=document["id"])
    given = execution(document)
    approval = asked_for(office, given)
    who: Json = {"role": "operator", "tenant": office.tenant, "user": "bob"}
    parked = submit(office.person("ann"), governed(given, approval))

    by_a2a = A2A(office.server, **who)
    waiting = by_a2a.call("GetTask", {"id": parked["task_id"]})["status"]["message"]["parts"]
    [request] = next(part["data"]["requests"] for part in waiting if "data" in part)
    by_tool = by_message(by_a2a)("approval_show", approval_id=approval["approval_id"])
    by_mcp = Mcp(office.server, **who).call("approval_show", {"approval_id": approval["approval_id"]})
    by_rest = data(office.person("bob").get(f"/api/approvals/{approval['approval_id']}"))
    environment = {"DRAGOMAN_TOKEN": office.server.token(**who)}
    by_shell = office.server.cli("approval", "show", approval["approval_id"], environment=environment).stdout

    shown = by_rest["shows"]["document"]
    assert (shown["version"], shown["compared_with"]) == (3, 1)
    assert shown["changes"].splitlines() == [
        "- We pay EUR 1,000.", "+ We pay EUR 9,000,000.", "+ In March."
    ]  # fmt: skip
    for seen in (request, by_tool, by_mcp["structuredContent"]):
        assert (seen["shows"]["document"], seen["requested_by"]) == (shown, "ann")
    assert "- We pay EUR 1,000." in by_shell
    assert "+ We pay EUR 9,000,000." in by_shell


def test_what_went_stale_is_in_the_audit_trail(office: Office) -> None:
    document = contract(office)
    approval = asked_for(office, execution(document))
    write(office.person("ann"), DEAR, document_id=document["id"])

    problem(decide(office.person("bob"), approval), 409, "APPROVAL_STALE")

    trail = data(office.person("root", "org_admin").get("/api/audit", params={"operation": "approval.spoil"}))
    assert [one["resource"] for one in trail] == [approval["approval_id"]]
