"""Who may decide what, and what becomes of it."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from tests.backstage import add_tenant
from tests.doors.mcp.calling import Mcp
from tests.doors.rest.calling import data, problem
from tests.harness import wait_for
from tests.services.approvals.asking import NDA, Office, decide


def test_a_request_says_who_must_approve_exactly_what_and_until_when(office: Office) -> None:
    asked = office.ask(reason="agreed on the phone", actor="bot-7")

    assert (asked["state"], asked["requested_by"], asked["reason"]) == ("pending", "ann", "agreed on the phone")
    assert {name: asked[name] for name in NDA} == NDA
    assert asked["policies"] == [{"id": "contracts-approval", "version": "1"}]
    assert (asked["quorum"], asked["approved"], asked["roles"]) == (1, 0, ["operator", "org_admin"])
    assert (asked["people_only"], asked["parties"]) == (True, ["ann"])
    assert len(asked["digest"]) == 64
    assert asked["expires_at"][:10] > asked["created_at"][:10]


def test_the_digest_is_of_what_is_asked_and_of_nothing_else(office: Office) -> None:
    digest = office.ask()["digest"]

    assert office.ask("eve", reason="another reason", quorum=3)["digest"] == digest
    others = [
        office.ask(action="signature.attest"),
        office.ask(resource={**NDA["resource"], "version": "4"}),
        office.ask(matter_id="matter-8"),
        office.ask(input={"envelope_id": "env-2"}),
    ]
    assert len({digest, *(one["digest"] for one in others)}) == 5


def test_another_person_approves_and_who_they_are_is_kept(office: Office) -> None:
    asked = office.ask()

    decided = data(decide(office.person("bob"), asked, reason="checked", digest=asked["digest"]))

    assert decided["state"] == "approved"
    [decision] = decided["decisions"]
    assert decision.pop("at") >= asked["created_at"]
    assert decision == {"by": "bob", "type": "user", "role": "operator", "decision": "approve", "reason": "checked",
                        "digest": asked["digest"]}  # fmt: skip


def test_one_denial_ends_it(office: Office) -> None:
    asked = office.ask(quorum=2)
    data(decide(office.person("bob"), asked))

    denied = data(decide(office.person("cyd"), asked, "deny", reason="wrong party"))

    assert denied["state"] == "denied"
    refused = problem(decide(office.person("dan"), asked), 409, "APPROVAL_CLOSED")
    assert refused["details"]["state"] == "denied"


def test_nobody_approves_what_they_asked_for_and_everyone_who_may_decide_can_deny_it(office: Office) -> None:
    asked = office.ask()
    ann = office.person("ann", "org_admin")

    problem(decide(ann, asked), 403, "SELF_APPROVAL")

    assert office.show(asked)["decisions"] == []
    assert data(decide(ann, asked, "deny", reason="I was wrong"))["state"] == "denied"


def test_a_name_that_nobody_checked_is_shown_as_a_claim_and_excludes_nobody(office: Office) -> None:
    asked = office.ask(actor="bob", on_behalf_of="cyd", quorum=2)

    assert (asked["parties"], asked["claims"]) == (["ann"], ["bob", "cyd"])
    assert (asked["actor"], asked["on_behalf_of"]) == ("bob", "cyd")
    data(decide(office.person("bob"), asked))
    assert data(decide(office.person("cyd"), asked))["state"] == "approved"


def test_a_role_that_may_not_decide_is_refused(office: Office) -> None:
    asked = office.ask(roles=["org_admin"])

    refused = problem(decide(office.person("bob"), asked), 403, "APPROVAL_RESERVED")

    assert refused["details"]["reason"] == "ROLE"
    assert data(decide(office.person("bob", "org_admin"), asked))["state"] == "approved"


def test_programs_do_not_decide_what_is_reserved_for_people(office: Office) -> None:
    asked = office.ask()

    refused = problem(decide(office.program("robot"), asked, digest=asked["digest"]), 403, "APPROVAL_RESERVED")
    problem(decide(office.person("agent-1", "agent"), asked), 403, "UNAUTHORIZED")

    assert refused["details"]["reason"] == "PEOPLE_ONLY"


def test_a_key_that_says_it_is_a_user_decides_nothing_reserved_for_people_on_any_door(office: Office) -> None:
    asked = office.ask()
    holder = {"name": "ghost", "subject": "bob", "principal_type": "user", "role": "operator"}
    key = data(office.person("root", "org_admin").post("/api/keys", json=holder), 201)["secret"]
    words = {"approval_id": asked["approval_id"], "decision": "approve", "digest": asked["digest"]}

    with office.server.client(key) as ghost:
        by_rest = problem(decide(ghost, asked, digest=asked["digest"]), 403, "APPROVAL_RESERVED")
        parts = [{"type": "data", "data": {"tool": "approval_decide", "arguments": words}}]
        by_a2a = ghost.post("/tasks/send", json={"message": {"role": "user", "parts": parts}}).json()
        by_mcp = Mcp.bearing(ghost).call("approval_decide", words)
        decidable = data(ghost.get("/api/approvals", params={"decidable": True}))
        known_as = data(ghost.get("/api/me"))

    said = next(part["data"] for part in by_a2a["status"]["message"]["parts"] if part["type"] == "data")
    errors = [by_rest, said["error"], by_mcp["structuredContent"]["error"]]
    assert [(one["code"], one["details"]["reason"]) for one in errors] == [("APPROVAL_RESERVED", "PEOPLE_ONLY")] * 3
    assert (decidable, known_as["type"], known_as["person"]) == ([], "user", False)
    assert office.show(asked)["decisions"] == []


def test_a_decision_on_something_else_than_was_seen_is_refused(office: Office) -> None:
    asked = office.ask()

    refused = problem(decide(office.person("bob"), asked, digest="0" * 64), 409, "APPROVAL_MISMATCH")

    assert refused["details"]["digest"] == asked["digest"]
    assert office.show(asked)["state"] == "pending"


def test_a_quorum_is_of_different_people(office: Office) -> None:
    asked = office.ask(quorum=2)
    bob = office.person("bob")

    assert data(decide(bob, asked))["state"] == "pending"
    again = problem(decide(bob, asked), 409, "APPROVAL_CLOSED")
    assert again["details"]["reason"] == "YOU_DECIDED"
    assert data(decide(office.person("cyd"), asked))["state"] == "approved"


def test_deciders_at_the_same_time_are_counted_one_after_the_other(office: Office) -> None:
    asked = office.ask(quorum=2)
    people = [office.person(f"p{number}") for number in range(6)]

    with ThreadPoolExecutor(12) as pool:
        codes = sorted(answer.status_code for answer in pool.map(lambda who: decide(who, asked), people * 2))

    shown = office.show(asked)
    assert codes == [200, 200, *[409] * 10]
    assert (shown["state"], shown["approved"], len({one["by"] for one in shown["decisions"]})) == ("approved", 2, 2)


def test_what_is_over_cannot_be_decided_and_is_seen_to_be_over(office: Office) -> None:
    asked = office.ask()
    office.end_time_of(asked)

    problem(decide(office.person("bob"), asked), 409, "APPROVAL_EXPIRED")

    assert office.show(asked)["state"] == "expired"
    wait_for(lambda: office.show(asked)["closed_at"], "the sweep")


def test_a_request_is_taken_back_by_who_made_it_or_runs_the_tenant(office: Office) -> None:
    asked, other = office.ask(), office.ask()
    path = f"/api/approvals/{asked['approval_id']}/withdraw"

    problem(office.person("bob").post(path, json={}), 403, "UNAUTHORIZED")
    taken = data(office.person("ann").post(path, json={"reason": "new terms"}))
    data(office.person("root", "org_admin").post(f"/api/approvals/{other['approval_id']}/withdraw", json={}))

    assert (taken["state"], taken["closed_because"]) == ("withdrawn", "new terms")
    problem(decide(office.person("bob"), asked), 409, "APPROVAL_CLOSED")


def test_a_list_shows_what_waits_for_the_caller(office: Office) -> None:
    waiting = office.ask()
    for_admins = office.ask(roles=["org_admin"])
    decided = office.ask(quorum=2)
    data(decide(office.person("bob"), decided))
    own = office.ask("bob")
    bob = office.person("bob")

    def listed(**wanted: str) -> list[str]:
        return [one["approval_id"] for one in data(bob.get("/api/approvals", params=wanted))]

    assert listed(decidable="true") == [waiting["approval_id"]]
    assert listed(mine="true") == [own["approval_id"]]
    assert set(listed(state="pending")) == {one["approval_id"] for one in (waiting, for_admins, decided, own)}
    assert listed(matter_id="matter-8") == listed(action="signature.void") == listed(state="denied") == []


def test_another_tenant_sees_and_decides_nothing(office: Office) -> None:
    asked = office.ask()
    rival = Office(office.server, add_tenant(office.server))
    stranger = rival.person("bob", "org_admin")

    problem(stranger.get(f"/api/approvals/{asked['approval_id']}"), 404, "NOT_FOUND")
    problem(decide(stranger, asked), 404, "NOT_FOUND")
    assert data(stranger.get("/api/approvals")) == []
    rival.close()


def test_what_is_not_there_is_not_found(office: Office) -> None:
    problem(office.person("bob").get(f"/api/approvals/{uuid4()}"), 404, "NOT_FOUND")


def test_every_refusal_is_in_the_audit_trail(office: Office) -> None:
    asked = office.ask()
    problem(decide(office.person("ann"), asked), 403, "SELF_APPROVAL")

    [record] = data(office.person("root", "org_admin").get("/api/audit", params={"outcome": "refused"}))

    assert (record["operation"], record["code"], record["subject"]) == ("approval.decide", "SELF_APPROVAL", "ann")
    assert record["resource"] == asked["approval_id"]
