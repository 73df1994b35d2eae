"""Accepting knowledge, where a policy demands that others approve it."""

from typing import Any

import httpx
import pytest

from tests.backstage import sql
from tests.doors.rest.calling import data, problem
from tests.services.approvals.asking import Office, accept_policy, decide


def propose(office: Office, content: str = "One database.", name: str = "ann") -> None:
    item = {"id": "adr-one", "type": "adr", "title": "One", "content": content}
    data(office.person(name).post("/api/knowledge/propose", json=item), 201)


def ask(office: Office, name: str) -> dict[str, Any]:
    """A request for the approval of the proposal, as the refusal to accept it says."""
    refused = problem(accept(office, "cyd"), 403, "GOVERNANCE_CONTEXT_REQUIRED")
    [missing] = refused["details"]["missing"]
    return data(office.person(name).post("/api/approvals", json=missing["request"]), 201)


def accept(office: Office, name: str, approval: dict[str, Any] | None = None) -> httpx.Response:
    given = {"approval_id": approval["approval_id"]} if approval else {}
    return office.person(name).post("/api/knowledge/adr-one/accept", json=given)


@pytest.fixture
def asked(office: Office) -> dict[str, Any]:
    """A request for the approval of a proposal, by who wrote it."""
    accept_policy(office, "four-eyes", approvals={"actions": ["knowledge.accept"]})
    propose(office)
    return ask(office, "ann")


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


def test_nobody_approves_what_they_wrote_whoever_asked_for_it(office: Office) -> None:
    """All authors of the proposal count, and those of what was accepted before do not."""
    accept_policy(office, "four-eyes", approvals={"actions": ["knowledge.accept"]})
    propose(office, name="o'hara,")
    propose(office, "Two databases.", name="dan")
    asked = ask(office, "eve")

    for author in ("o'hara,", "dan"):
        problem(decide(office.person(author), asked), 403, "AUTHOR_APPROVAL")

    assert asked["parties"] == ["dan", "eve", "o'hara"]
    assert data(office.person("dan").get("/api/approvals", params={"decidable": "true"})) == []
    refused = data(office.person("root", "org_admin").get("/api/audit", params={"operation": "approval.decide"}))
    assert [(one["subject"], one["outcome"], one["code"]) for one in refused] == [
        ("dan", "refused", "AUTHOR_APPROVAL"), ("o'hara,", "refused", "AUTHOR_APPROVAL"),
    ]  # fmt: skip
    data(decide(office.person("root", "org_admin"), asked))
    assert data(accept(office, "cyd", asked))["status"] == "accepted"


def test_an_approval_by_an_author_that_was_given_all_the_same_is_not_used(office: Office) -> None:
    """As on a machine that has not the repository, where nobody is known to be an author."""
    accept_policy(office, "four-eyes", approvals={"actions": ["knowledge.accept"]})
    propose(office, name="dan")
    asked = ask(office, "eve")
    data(decide(office.person("bob"), asked))
    sql(office.server, "UPDATE approval_decisions SET subject = 'dan' WHERE approval_id = $1", asked["approval_id"])

    problem(accept(office, "cyd", asked), 403, "AUTHOR_APPROVAL")

    assert office.show(asked)["state"] == "approved"
