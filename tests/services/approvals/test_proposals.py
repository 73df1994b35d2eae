"""Accepting knowledge, where a policy demands that others approve it."""

from typing import Any

import httpx
import pytest

from tests.doors.rest.calling import data, problem
from tests.services.approvals.asking import Office, accept_policy, decide


def propose(office: Office, content: str = "One database.") -> None:
    item = {"id": "adr-one", "type": "adr", "title": "One", "content": content}
    data(office.person("ann").post("/api/knowledge/propose", json=item), 201)


def accept(office: Office, name: str, approval: dict[str, Any] | None = None) -> httpx.Response:
    given = {"approval_id": approval["approval_id"]} if approval else {}
    return office.person(name).post("/api/knowledge/adr-one/accept", json=given)


@pytest.fixture
def asked(office: Office) -> dict[str, Any]:
    """A request for the approval of a proposal, as the refusal to accept it says."""
    accept_policy(office, "four-eyes", approvals={"actions": ["knowledge.accept"]})
    propose(office)
    refused = problem(accept(office, "cyd"), 403, "GOVERNANCE_CONTEXT_REQUIRED")
    [missing] = refused["details"]["missing"]
    return data(office.person("ann").post("/api/approvals", json=missing["request"]), 201)


def test_without_such_a_policy_a_role_is_enough(office: Office) -> None:
    propose(office)

    assert data(accept(office, "ann"))["status"] == "accepted"


def test_an_approval_of_exactly_this_proposal_lets_it_be_accepted_once(office: Office, asked: dict[str, Any]) -> None:
    problem(accept(office, "cyd", asked), 409, "APPROVAL_PENDING")
    data(decide(office.person("bob"), asked))

    assert data(accept(office, "cyd", asked))["status"] == "accepted"

    used = office.show(asked)
    assert (used["state"], used["consumed_by"].partition("@")[0]) == ("consumed", "knowledge:adr-one")


def test_a_proposal_that_was_changed_since_needs_another_approval(office: Office, asked: dict[str, Any]) -> None:
    data(decide(office.person("bob"), asked))
    propose(office, "Two databases.")

    refused = problem(accept(office, "cyd", asked), 409, "APPROVAL_STALE")

    assert refused["details"]["reason"] == "TARGET_MOVED"
    assert office.show(asked)["state"] == "approved"


def test_who_approved_it_does_not_accept_it(office: Office, asked: dict[str, Any]) -> None:
    data(decide(office.person("bob"), asked))

    problem(accept(office, "bob", asked), 403, "SELF_APPROVAL")
