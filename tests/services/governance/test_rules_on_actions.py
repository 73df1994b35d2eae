"""What rules on actions see, by both doors that ask them: a validation, and a task that is handed over."""

from typing import Any

import httpx
import pytest

from tests.doors.rest.calling import data, problem
from tests.services.approvals.asking import Office, accept_policy
from tests.services.governance.syncing import policy, sync
from tests.services.knowledge.remotes import Remote
from tests.services.tasks.envelopes import envelope

Json = dict[str, Any]
SEEN = {
    "the subject": 'forbid (principal == Principal::"ann", action, resource);',
    "the kind of principal": 'forbid (principal, action, resource) when { principal.type == "user" };',
    "the role": 'forbid (principal in Role::"operator", action, resource);',
    "the action": 'forbid (principal, action == Action::"count.once", resource);',
    "the family of the action": 'forbid (principal, action in Action::"count", resource);',
    "the resource": 'forbid (principal, action, resource == Resource::"c-7");',
    "the type of the resource": 'forbid (principal, action, resource) when { resource.type == "counter" };',
    "the version": 'forbid (principal, action, resource) when { resource.version == "3" };',
    "the matter": 'forbid (principal, action, resource) when { context.matter like "secret-*" };',
    "a field of the input": 'forbid (principal, action == Action::"count.once", resource)'
    ' when { context.input.name == "seven" };',
    "a field that was left out": 'forbid (principal, action == Action::"count.once", resource)'
    " when { context.input has stay_s };",
}
GIVEN: Json = {
    "action": "count.once",
    "resource": {"type": "counter", "id": "c-7", "version": "3"},
    "matter": {"id": "secret-1"},
    "input": {"name": "seven"},
}
NEVER = {
    "a type that does not exist": 'forbid (principal == User::"ann", action, resource);',
    "a principal that is a role": 'forbid (principal == Role::"agent", action, resource);',
    "a role that does not exist": 'forbid (principal in Role::"king", action, resource);',
    "a resource of another type": 'forbid (principal, action, resource == Document::"d-1");',
    "a wildcard": 'forbid (principal, action == Action::"signature.*", resource);',
    "a field that the context has not": "forbid (principal, action, resource) when { context has client };",
    "a kind of principal that does not exist": "forbid (principal, action, resource)"
    ' when { principal.type == "human" };',
    "a text that is a number": "forbid (principal, action, resource) when { context.matter == 7 };",
    "an input that the action does not take": 'forbid (principal, action == Action::"count.once", resource)'
    " when { context.input has amount };",
    "a condition that is false": "forbid (principal, action, resource) when { false };",
    "an exception that is true": "forbid (principal, action, resource) unless { true };",
    "a template": "forbid (principal == ?principal, action, resource);",
    "a permission": "permit (principal, action, resource);",
    "no Cedar": "forbid everything!",
}


def verdict(office: Office, name: str, **changes: Any) -> Json:
    given = {"context": {**GIVEN, **changes}, "target_layer": "project"}
    return data(office.person(name).post("/api/governance/validate", json=given))


def submit(office: Office, name: str, **changes: Any) -> httpx.Response:
    given = {**GIVEN, **changes}
    fields = {"resource": given["resource"], "matter": given["matter"], "actor": {"id": name, "type": "human"}}
    return office.person(name).post("/api/tasks", json=envelope(given["action"], given["input"], **fields))


def propose(office: Office, cedar: str) -> httpx.Response:
    item = {"id": "rule", "type": "policy", "title": "Rule", "content": "So.", "metadata": {"cedar": cedar}}
    return office.person("ann").post("/api/knowledge/propose", json=item)


@pytest.mark.parametrize("cedar", SEEN.values(), ids=SEEN)
def test_a_rule_sees_what_is_done_by_whom_to_what(office: Office, cedar: str) -> None:
    accept_policy(office, "rule", cedar=cedar)

    refused = problem(submit(office, "ann"), 403, "POLICY_REFUSED")

    assert [one["id"] for one in refused["details"]["policies"]] == ["rule"]
    assert [one["policy_id"] for one in verdict(office, "ann")["violations"]] == ["rule"]


def test_a_rule_leaves_alone_what_it_does_not_speak_of(office: Office) -> None:
    accept_policy(office, "not-ann", cedar=SEEN["the subject"])
    accept_policy(office, "not-these", cedar=SEEN["the matter"])

    other = {"matter": {"id": "matter-1"}}

    assert data(submit(office, "bob", **other), 201)["state"] == "queued"
    assert verdict(office, "bob", **other)["valid"]
    problem(submit(office, "bob"), 403, "POLICY_REFUSED")
    problem(submit(office, "ann", **other), 403, "POLICY_REFUSED")


@pytest.mark.parametrize("cedar", NEVER.values(), ids=NEVER)
def test_a_rule_that_can_never_match_is_refused_when_it_is_proposed(office: Office, cedar: str) -> None:
    refused = problem(propose(office, cedar), 400, "INVALID_PARAMS")

    assert {one["field"] for one in refused["errors"]} == {"metadata.cedar"}


def test_a_rule_from_a_remote_that_can_never_match_is_reported_and_one_that_is_no_cedar_forbids(
    office: Office, remote: Remote
) -> None:
    never = NEVER["a role that does not exist"].replace('"', '\\"')
    remote.write(company__policies__never=policy("Never", cedar=f'"{never}"'))
    data(sync(office, remote))
    reported = verdict(office, "ann")
    remote.write(company__policies__garbled=policy("Garbled", cedar=NEVER["no Cedar"]))
    data(sync(office))

    assert (reported["valid"], [one["policy_id"] for one in reported["problems"]]) == (True, ["never"])
    assert [one["policy_id"] for one in verdict(office, "ann")["violations"]] == ["garbled"]
    problem(submit(office, "ann"), 403, "POLICY_REFUSED")


FORGED: dict[str, Json] = {
    "an entity": {"__entity": {"type": "Role", "id": "org_admin"}},
    "an entity of no kind": {"__entity": {"type": "no type", "id": "x"}},
    "a decimal": {"__extn": {"fn": "decimal", "arg": "1.0"}},
    "an expression": {"__expr": "principal"},
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_an_input_is_data_and_never_an_entity_of_the_rules(office: Office, forged: Json) -> None:
    """The input of `policy.check` has a context of any shape, in which a caller may write what it likes."""
    accept_policy(
        office,
        "rule",
        cedar='@id("vetted") forbid (principal, action == Action::"note.free", resource)'
        ' unless { context.input has by && context.input.by in Role::"org_admin" };',
    )

    judged = verdict(office, "ann", action="note.free", input={"by": forged})

    assert not judged["valid"]


def test_every_policy_that_a_refusal_names_can_be_read(office: Office) -> None:
    """One of them comes with the server and is no item of the knowledge."""
    cedar = 'forbid (principal, action == Action::"count.never", resource);'
    demand = {"actions": ["count.*"], "quorum": 2, "roles": ["org_admin"]}
    ann = office.person("ann")
    accept_policy(office, "two-sign", approvals=demand, cedar=cedar)
    given = envelope("count.secret", {"name": "n-1"}, actor={"id": "ann", "type": "human"})

    refused = problem(ann.post("/api/tasks", json=given), 403, "GOVERNANCE_CONTEXT_REQUIRED")
    named = [tuple(one.values()) for part in refused["details"]["missing"] for one in part.get("policies", [])]
    shown = data(ann.post("/api/governance/policies", json={}))["action_rules"]
    by_command = office.server.cli(
        "governance", "policies", environment={"DRAGOMAN_TOKEN": ann.headers["authorization"].removeprefix("Bearer ")}
    )

    read = {(one["policy_id"], one["version"]): one for one in shown}
    assert set(read) == set(named)
    assert {name for name, _ in read} == {"contracts-approval", "two-sign"}
    own, built_in = (next(one for one in shown if one["built_in"] is which) for which in (False, True))
    assert own["cedar"] == cedar
    assert own["approvals"] == {**demand, "people_only": False, "valid_hours": None}
    assert built_in["approvals"]["roles"] == ["operator", "org_admin"]
    assert "sensitive actions: 1 approval by operator or org_admin, people alone" in " ".join(by_command.stdout.split())
