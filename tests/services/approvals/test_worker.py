"""Governance as actions that are handed over: nobody does by an envelope what they may not do otherwise."""

from typing import Any
from uuid import uuid4

import pytest

from tests.doors.rest.calling import data
from tests.harness import wait_for
from tests.services.approvals.asking import Office, accept_policy

ENDED = ("succeeded", "failed", "rejected", "cancelled", "dead_letter")
NDA_FIELDS = {"party_a": "Acme", "party_b": "Rival", "effective_date": "2026-12-01", "term_months": 12,
              "governing_law": "England and Wales"}  # fmt: skip


def performed(
    office: Office, name: str, action: str, given: dict[str, Any], resource: dict[str, Any], role: str = "operator"
) -> dict[str, Any]:
    """What became of an action that somebody handed over."""
    who = office.person(name, role)
    envelope = {
        "envelope_version": "1",
        "actor": {"id": name, "type": "agent" if role == "agent" else "human"},
        "action": action,
        "resource": resource,
        "matter": {"id": "matter-7"},
        "idempotency_key": uuid4().hex,
        "request": {},
        "input": given,
    }
    task_id = data(who.post("/api/tasks", json=envelope), 201)["task_id"]
    return wait_for(lambda: (view := data(who.get(f"/api/tasks/{task_id}")))["state"] in ENDED and view, "its end")


def test_an_approval_is_asked_for_and_decided_by_envelopes(office: Office) -> None:
    thing = {"type": "document", "id": "nda-1"}
    draft = performed(office, "ann", "document.draft", {"template": "mutual-nda", "fields": NDA_FIELDS}, thing)
    assert draft["state"] == "succeeded", draft["error"]
    asked = performed(office, "ann", "approval.request", {"action": "signature.witness", "input": {"n": 1}}, thing)

    made = asked["result"]
    approval = {"type": "approval", "id": made["approval_id"]}
    own = performed(office, "ann", "approval.decide", {"decision": "approve"}, approval)
    decided = performed(office, "bob", "approval.decide", {"decision": "approve", "digest": made["digest"]}, approval)

    bound = {**thing, "version": "1", "sha256": draft["result"]["sha256"]}
    assert (made["requested_by"], made["resource"], made["state"]) == ("ann", bound, "pending")
    assert own["error"]["code"] == "SELF_APPROVAL"
    assert decided["result"]["state"] == "approved"
    [evidence] = decided["evidence"]
    assert (evidence["kind"], evidence["sha256"]) == ("approval", made["digest"])


def test_an_agent_cannot_decide_by_an_envelope_either(office: Office) -> None:
    asked = office.ask()

    view = performed(
        office, "bot", "approval.decide", {"decision": "approve", "digest": asked["digest"]},
        {"type": "approval", "id": asked["approval_id"]}, role="agent",
    )  # fmt: skip

    assert view["error"]["code"] == "UNAUTHORIZED"
    assert office.show(asked)["state"] == "pending"


@pytest.mark.parametrize("given", [{"files": [{"path": "src/app.py", "content": "import pickle\n"}]}, {}])
def test_files_or_the_envelopes_document_are_held_against_the_policies(office: Office, given: dict[str, Any]) -> None:
    forbidden = {
        "operator": "must_not_match",
        "target": "code",
        "pattern": "import pickle|England",
        "severity": "block",
    }
    accept_policy(office, "no-pickle", constraints=[forbidden])
    thing = {"type": "document", "id": "nda-1"}
    performed(office, "ann", "document.draft", {"template": "mutual-nda", "fields": NDA_FIELDS}, thing)

    view = performed(office, "ann", "policy.check", given, thing)

    result = view["result"]
    assert (view["state"], result["passed"]) == ("succeeded", False)
    assert {one["policy_id"] for one in result["governance"]["violations"]} == {"no-pickle"}
    assert {one["item_id"] for one in result["knowledge"]["violations"]} == {"no-pickle"}
