"""Ending a policy needs the same consent as starting one, by whichever operation it ends."""

from typing import Any

import httpx
import pytest

from tests.doors.rest.calling import data, problem
from tests.services.approvals.asking import Office, accept_policy, decide
from tests.services.governance.syncing import policy, sync
from tests.services.knowledge.remotes import Remote

FOUR_EYES = policy("Four eyes", approvals="{actions: [knowledge.accept]}")
TWO_SIGN = policy("Two sign", approvals='{actions: ["signature.*"], quorum: 2}')
NO_PICKLE = policy("No pickle", constraints="[{operator: must_not_use, target: import, pattern: pickle}]")
WEAKENINGS = {
    "removed": None,
    "deprecated": TWO_SIGN.replace("accepted", "deprecated"),
    "changed": TWO_SIGN.replace("quorum: 2", "quorum: 1"),
    "made unreadable": TWO_SIGN.replace("Two sign\n", "*nobody\n", 1),
}


def end(office: Office, name: str, policy_id: str, verb: str = "deprecate", **given: Any) -> httpx.Response:
    return office.person(name).post(f"/api/knowledge/{policy_id}/{verb}", json=given)


def approved(office: Office, refused: httpx.Response) -> dict[str, Any]:
    """The approval that a refusal asks for, asked for by ann and given by bob."""
    [missing] = problem(refused, 403, "GOVERNANCE_CONTEXT_REQUIRED")["details"]["missing"]
    asked = data(office.person("ann").post("/api/approvals", json=missing["request"]), 201)
    data(decide(office.person("bob"), asked))
    return asked


def status(office: Office, policy_id: str) -> str:
    return data(office.person("ann").get(f"/api/knowledge/{policy_id}"))["status"]


def connected(office: Office, remote: Remote) -> None:
    """Four eyes and two others in force, from a remote."""
    remote.write(**{"company__policies__four-eyes": FOUR_EYES, "company__policies__two-sign": TWO_SIGN,
                    "company__policies__no-pickle": NO_PICKLE})  # fmt: skip
    data(sync(office, remote))


@pytest.mark.parametrize("policy_id", ["two-sign", "four-eyes"])
def test_nobody_deprecates_a_policy_alone_where_accepting_needs_another(office: Office, policy_id: str) -> None:
    accept_policy(office, "two-sign", approvals={"actions": ["signature.*"], "quorum": 2})
    accept_policy(office, "four-eyes", approvals={"actions": ["knowledge.accept"]})

    refused = end(office, "ann", policy_id)
    before = status(office, policy_id)
    consent = approved(office, refused)
    problem(end(office, "bob", policy_id, approval_id=consent["approval_id"]), 403, "SELF_APPROVAL")
    ended = data(end(office, "ann", policy_id, approval_id=consent["approval_id"]))

    assert (before, ended["status"], office.show(consent)["state"]) == ("accepted", "deprecated", "consumed")


def test_consent_to_one_end_is_not_consent_to_another(office: Office) -> None:
    accept_policy(office, "two-sign", approvals={"actions": ["signature.*"], "quorum": 2})
    accept_policy(office, "one-signs", approvals={"actions": ["signature.*"]})
    accept_policy(office, "four-eyes", approvals={"actions": ["knowledge.accept"]})
    consent = approved(office, end(office, "ann", "one-signs"))["approval_id"]

    problem(end(office, "ann", "two-sign", approval_id=consent), 409, "APPROVAL_MISMATCH")
    problem(end(office, "ann", "one-signs", "supersede", by="two-sign", approval_id=consent), 409, "APPROVAL_MISMATCH")
    replaced = end(office, "ann", "one-signs", "supersede", by="two-sign")
    done = data(
        end(office, "ann", "one-signs", "supersede", by="two-sign",
            approval_id=approved(office, replaced)["approval_id"])
    )  # fmt: skip

    assert (status(office, "two-sign"), done["status"]) == ("accepted", "superseded")


@pytest.mark.parametrize("document", WEAKENINGS.values(), ids=WEAKENINGS)
def test_a_sync_that_ends_or_changes_a_policy_needs_consent_to_exactly_that(
    office: Office, remote: Remote, document: str | None
) -> None:
    connected(office, remote)
    path = remote.path / "company/policies/two-sign.md"
    path.unlink() if document is None else path.write_text(document)
    remote.write(README="It was changed.")

    refused = sync(office)
    asked = problem(refused, 403, "GOVERNANCE_CONTEXT_REQUIRED")["details"]["missing"][0]["request"]
    before = status(office, "two-sign")
    consent = approved(office, refused)
    done = data(sync(office, approval_id=consent["approval_id"]))

    assert [one["id"] for one in asked["input"]["ends"]] == ["two-sign"]
    assert (before, done["merged"], office.show(consent)["state"]) == ("accepted", True, "consumed")
    assert asked["resource"]["version"] == done["head"]


def test_a_remote_that_has_moved_on_since_needs_another_approval(office: Office, remote: Remote) -> None:
    connected(office, remote)
    remote.write(**{"company__policies__two-sign": TWO_SIGN.replace("quorum: 2", "quorum: 1")})
    consent = approved(office, sync(office))
    remote.write(**{"company__policies__no-pickle": NO_PICKLE.replace("accepted", "draft")})

    problem(sync(office, approval_id=consent["approval_id"]), 409, "APPROVAL_STALE")

    assert (status(office, "two-sign"), status(office, "no-pickle")) == ("accepted", "accepted")


def test_a_new_policy_that_lessens_another_needs_consent_and_one_that_does_not_needs_none(
    office: Office, remote: Remote
) -> None:
    connected(office, remote)
    remote.write(**{"company__policies__no-telnet": NO_PICKLE.replace("pickle", "telnetlib")})
    tightened = data(sync(office, name="bot", role="agent"))
    remote.write(projects__shop__policies__fine=NO_PICKLE.replace("status:", "extends: no-pickle\nstatus:"))

    [missing] = problem(sync(office), 403, "GOVERNANCE_CONTEXT_REQUIRED")["details"]["missing"]

    assert tightened["added"] == 1
    assert [one["id"] for one in missing["request"]["input"]["ends"]] == ["no-pickle"]


def test_who_may_not_accept_ends_no_policy_by_a_sync(office: Office, remote: Remote) -> None:
    """Even where no policy demands approvals."""
    remote.write(**{"company__policies__no-pickle": NO_PICKLE})
    data(sync(office, remote))
    (remote.path / "company/policies/no-pickle.md").unlink()
    remote.write(README="Nothing is forbidden.")

    refused = problem(sync(office, name="bot", role="agent"), 403, "UNAUTHORIZED")
    before = status(office, "no-pickle")
    data(sync(office))

    assert ([one["id"] for one in refused["details"]["policies"]], before) == (["no-pickle"], "accepted")
    problem(office.person("ann").get("/api/knowledge/no-pickle"), 404, "NOT_FOUND")


@pytest.mark.parametrize("named", ["knowledge.deprecate", "knowledge.supersede", "knowledge.sync"])
def test_who_may_not_end_a_policy_may_not_rewrite_it_either(office: Office, named: str) -> None:
    """A rule on one way of ending knowledge is a rule on all ways, acceptance of a rewritten document included."""
    accept_policy(office, "two-sign", approvals={"actions": ["signature.*"], "quorum": 2})
    accept_policy(office, "endings", approvals={"actions": [named]})
    harmless = {"id": "two-sign", "type": "policy", "title": "two-sign", "content": "As agreed.",
                "metadata": {"approvals": {"actions": ["nothing.at-all"]}}}  # fmt: skip
    data(office.person("ann").post("/api/knowledge/propose", json=harmless), 201)

    rewritten = office.person("ann").post("/api/knowledge/two-sign/accept", json={})

    problem(rewritten, 403, "GOVERNANCE_CONTEXT_REQUIRED")
    problem(end(office, "ann", "endings"), 403, "GOVERNANCE_CONTEXT_REQUIRED")


def test_a_sync_that_ends_a_policy_is_covered_by_a_rule_on_deprecating(office: Office, remote: Remote) -> None:
    remote.write(
        company__policies__endings=policy("Endings", approvals="{actions: [knowledge.deprecate]}"),
        **{"company__policies__two-sign": TWO_SIGN},
    )
    data(sync(office, remote))
    (remote.path / "company" / "policies" / "two-sign.md").unlink()
    remote.write()

    problem(sync(office, remote), 403, "GOVERNANCE_CONTEXT_REQUIRED")
