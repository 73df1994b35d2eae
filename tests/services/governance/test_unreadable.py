"""A document among the policies that cannot be read might say anything: it makes things stricter, and is named."""

from typing import Any

import pytest

from tests.doors.rest.calling import data, problem
from tests.services.approvals.asking import Office
from tests.services.governance.syncing import policy, sync
from tests.services.knowledge.remotes import Remote
from tests.services.tasks.envelopes import envelope

PATH = "company/policies/two-sign.md"
TWO_SIGN = policy("Two sign", approvals='{actions: ["count.*"], quorum: 2}')
UNREADABLE = {
    "an alias": policy("Two sign", owner="*nobody", approvals='{actions: ["count.*"], quorum: 2}'),
    "no YAML": policy("Two sign", approvals="{actions: ["),
    "no fence": TWO_SIGN.replace("---\n\n", "\n"),
    "a pattern that does not compile": policy(
        "Two sign", constraints='[{operator: must_not_match, target: code, pattern: "("}]'
    ),
    "a status that does not exist": TWO_SIGN.replace("accepted", "acepted"),
}


def handed_over(office: Office, action: str = "count.secret") -> Any:
    given = envelope(action, {"name": "n-1"} if action == "count.secret" else {}, actor={"id": "ann", "type": "human"})
    return office.person("ann").post("/api/tasks", json=given)


def verdict(office: Office, context: dict[str, Any]) -> dict[str, Any]:
    given = {"context": context, "target_layer": "company"}
    return data(office.person("ann").post("/api/governance/validate", json=given))


@pytest.mark.parametrize("document", UNREADABLE.values(), ids=UNREADABLE)
def test_a_policy_that_cannot_be_read_refuses_every_action_and_is_named(
    office: Office, remote: Remote, document: str
) -> None:
    remote.write(**{"company__policies__two-sign": document})
    data(sync(office, remote))

    refused = problem(handed_over(office), 403, "POLICY_REFUSED")

    assert refused["details"]["reason"] == "POLICY_UNREADABLE"
    assert [one["id"] for one in refused["details"]["policies"]] == [PATH]
    problem(handed_over(office, "count.nothing"), 403, "POLICY_REFUSED")


def test_a_policy_that_cannot_be_read_fails_every_check(office: Office, remote: Remote) -> None:
    remote.write(**{"company__policies__two-sign": UNREADABLE["an alias"]})
    synced = data(sync(office, remote))
    checked = data(office.person("ann").post("/api/knowledge/check", json={"files": []}))
    drift = data(office.person("ann").post("/api/governance/drift", json={"project": "shop", "context": {}}))
    verdicts = [verdict(office, {}), verdict(office, {"action": "deploy"})]

    assert sorted(one["kind"] for one in synced["conflicts"]) == ["malformed", "unreadable_policy"]
    assert (checked["passed"], [one["item_id"] for one in checked["violations"]]) == (False, [PATH])
    assert [one["policy_id"] for one in drift["violations"]] == [PATH]
    for said in verdicts:
        assert (said["valid"], [one["policy_id"] for one in said["violations"]]) == (False, [PATH])
        assert [one["policy_id"] for one in said["problems"]] == [PATH]


def test_while_a_policy_cannot_be_read_two_others_must_approve_what_is_accepted(office: Office, remote: Remote) -> None:
    remote.write(**{"company__policies__two-sign": UNREADABLE["an alias"]})
    data(sync(office, remote))
    adr = {"id": "adr-one", "type": "adr", "title": "One", "content": "One database."}
    data(office.person("ann").post("/api/knowledge/propose", json=adr), 201)

    refused = problem(
        office.person("ann").post("/api/knowledge/adr-one/accept", json={}), 403, "GOVERNANCE_CONTEXT_REQUIRED"
    )

    assert [one["quorum"] for one in refused["details"]["missing"]] == [2]


def test_a_repaired_policy_holds_as_it_says(office: Office, remote: Remote) -> None:
    remote.write(**{"company__policies__two-sign": UNREADABLE["an alias"]})
    data(sync(office, remote))
    remote.write(**{"company__policies__two-sign": TWO_SIGN})
    data(sync(office, name="bot", role="agent"))

    refused = problem(handed_over(office), 403, "GOVERNANCE_CONTEXT_REQUIRED")

    assert [one["quorum"] for one in refused["details"]["missing"] if "quorum" in one] == [2]


def test_an_unreadable_document_that_is_clearly_not_in_force_changes_nothing(office: Office, remote: Remote) -> None:
    draft = UNREADABLE["a pattern that does not compile"].replace("accepted", "draft")
    remote.write(**{"company__policies__two-sign": draft})
    data(sync(office, remote))

    assert data(handed_over(office, "count.nothing"), 201)["state"] == "queued"
    assert verdict(office, {})["valid"]
