"""Policies and approvals of delegated tasks: what stops them, what lets them go on, and what is kept of it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.backstage import add_tenant, sql
from tests.doors.a2a.calling import A2A
from tests.doors.mcp.calling import Mcp
from tests.doors.rest.calling import data, problem
from tests.harness import Server, wait_for
from tests.services.approvals.asking import Office, accept_policy, decide
from tests.services.tasks.envelopes import envelope
from tests.services.tasks.handing import DOORS

BUILT_IN = {"id": "contracts-approval", "version": "1"}
ENDED = ("succeeded", "failed", "rejected", "cancelled", "dead_letter")
Json = dict[str, Any]


@pytest.fixture
def office(counting: Server) -> Iterator[Office]:
    """A tenant of the test's own, on the server with the workers."""
    opened = Office(counting, add_tenant(counting))
    yield opened
    opened.close()
    while A2A.opened:
        A2A.opened.pop().close()
    while Mcp.opened:
        Mcp.opened.pop().close()


def secret(**fields: Any) -> Json:
    """An envelope of ann's for something sensitive."""
    return envelope("count.secret", {"name": f"n-{uuid4().hex}"}, actor={"id": "ann", "type": "human"}, **fields)


def ask(office: Office, given: Json, **changes: Any) -> Json:
    """A request of ann's for exactly what the envelope will do."""
    return office.ask(
        action=given["action"],
        resource=given["resource"],
        matter_id=given["matter"]["id"],
        input=given["input"],
        **changes,
    )


def governed(given: Json, *approvals: Json, policies: Any = ("contracts-approval@1",)) -> Json:
    """The envelope with its references."""
    refs = [one["approval_id"] for one in approvals]
    return {**given, "governance": {"policy_refs": list(policies), "approval_refs": refs}}


def submit(office: Office, given: Json, name: str = "ann") -> httpx.Response:
    return office.person(name).post("/api/tasks", json=given)


def status(office: Office, task_id: str) -> Json:
    return data(office.person("root", "org_admin").get(f"/api/tasks/{task_id}"))


def ended(office: Office, task_id: str) -> Json:
    return wait_for(lambda: (found := status(office, task_id))["state"] in ENDED and found, "the end of the task")


def counted(outside: Path, given: Json) -> int:
    """How often it was done."""
    file = outside / given["input"]["name"]
    return len(file.read_text().splitlines()) if file.exists() else 0


def approved(office: Office, given: Json, **changes: Any) -> Json:
    """An approval of what the envelope will do."""
    asked = ask(office, given, **changes)
    return data(decide(office.person("bob"), asked))


@pytest.mark.req("ORC-GOV-1")
@pytest.mark.parametrize("door", DOORS)
def test_a_sensitive_action_without_references_is_blocked_and_told_what_is_missing(
    office: Office, outside: Path, door: str
) -> None:
    call = DOORS[door](office.server, role="operator", tenant=office.tenant, user="ann")
    given = secret()

    error = call("task_submit", envelope=given)["error"]

    assert error["code"] == "GOVERNANCE_CONTEXT_REQUIRED"
    policies, approvals = error["details"]["missing"]
    assert (policies["field"], policies["policies"]) == ("governance.policy_refs", [BUILT_IN])
    assert (approvals["field"], approvals["quorum"]) == ("governance.approval_refs", 1)
    assert (approvals["roles"], approvals["people_only"]) == (["operator", "org_admin"], True)
    assert [one for one in data(office.person("ann").get("/api/tasks")) if one["action"]] == []
    assert counted(outside, given) == 0


@pytest.mark.req("ORC-GOV-2")
@pytest.mark.parametrize("door", DOORS)
def test_a_sensitive_action_with_policies_and_approvals_is_done_and_they_are_kept_with_its_result(
    office: Office, outside: Path, door: str
) -> None:
    """What is missing is asked for as the refusal says, decided by another, and named in the envelope."""
    ann = DOORS[door](office.server, role="operator", tenant=office.tenant, user="ann")
    bob = DOORS[door](office.server, role="operator", tenant=office.tenant, user="bob")
    given = secret()
    policies, approvals = ann("task_submit", envelope=given)["error"]["details"]["missing"]
    asked = ann("approval_request", **approvals["request"])
    bob("approval_decide", approval_id=asked["approval_id"], decision="approve", digest=asked["digest"])

    made = ann("task_submit", envelope=governed(given, asked, policies=policies["policies"]))

    view = ended(office, made["task_id"])
    assert (view["state"], counted(outside, given)) == ("succeeded", 1)
    assert view["governance"]["policies"] == [BUILT_IN]
    [kept] = view["governance"]["approvals"]
    assert (kept["id"], kept["digest"], kept["requested_by"]) == (asked["approval_id"], asked["digest"], "ann")
    assert [(one["by"], one["decision"], one["digest"]) for one in kept["decisions"]] == [
        ("bob", "approve", asked["digest"])
    ]
    shown = office.show(asked)
    assert (shown["state"], shown["consumed_by"]) == ("consumed", made["task_id"])


def test_a_task_waits_for_its_approval_and_goes_on_when_it_is_given(office: Office, outside: Path) -> None:
    given = secret()
    asked = ask(office, given)

    made = data(submit(office, governed(given, asked)), 201)
    assert (made["state"], made["waits_for"]) == ("input_required", [asked["approval_id"]])
    data(decide(office.person("bob"), asked))

    view = ended(office, made["task_id"])
    assert (view["state"], counted(outside, given)) == ("succeeded", 1)
    assert [step["to"] for step in view["history"]] == [
        "requested", "validated", "input_required", "queued", "in_progress", "succeeded",
    ]  # fmt: skip


def test_a_task_whose_approval_is_denied_ends_without_being_done(office: Office, outside: Path) -> None:
    given = secret()
    asked = ask(office, given)
    made = data(submit(office, governed(given, asked)), 201)

    data(decide(office.person("bob"), asked, "deny", reason="not now"))

    view = ended(office, made["task_id"])
    assert (view["state"], view["error"]["code"], counted(outside, given)) == ("rejected", "APPROVAL_DENIED", 0)


def test_one_denial_is_enough_for_a_task_that_waits_for_several_approvals(office: Office, outside: Path) -> None:
    given = secret()
    asked, other = ask(office, given), ask(office, given)
    made = data(submit(office, governed(given, asked, other)), 201)

    data(decide(office.person("bob"), asked, "deny"))

    view = ended(office, made["task_id"])
    assert (view["error"]["code"], counted(outside, given)) == ("APPROVAL_DENIED", 0)
    assert office.show(other)["state"] == "pending"


def test_a_task_with_several_approvals_waits_for_all_of_them_and_uses_all_of_them(
    office: Office, outside: Path
) -> None:
    given = secret()
    asked, other = ask(office, given), ask(office, given)
    made = data(submit(office, governed(given, asked, other)), 201)

    data(decide(office.person("bob"), asked))
    assert status(office, made["task_id"])["waits_for"] == [other["approval_id"]]
    data(decide(office.person("bob"), other))

    assert (ended(office, made["task_id"])["state"], counted(outside, given)) == ("succeeded", 1)
    assert {office.show(one)["consumed_by"] for one in (asked, other)} == {made["task_id"]}


def test_a_decision_that_nobody_was_told_of_reaches_the_task_all_the_same(office: Office, outside: Path) -> None:
    """As when the process that decided died before it could tell, or the task began to wait a moment later."""
    given = secret()
    asked = ask(office, given)
    made = data(submit(office, governed(given, asked)), 201)

    sql(office.server, "UPDATE approvals SET state = 'approved' WHERE id = $1::text::uuid", asked["approval_id"])

    assert (ended(office, made["task_id"])["state"], counted(outside, given)) == ("succeeded", 1)


@pytest.mark.parametrize("how", ["withdrawn", "expired", "stale"])
def test_a_task_does_not_wait_for_an_approval_that_will_never_come(office: Office, outside: Path, how: str) -> None:
    given = secret()
    asked = ask(office, given)
    made = data(submit(office, governed(given, asked)), 201)

    if how == "withdrawn":
        data(office.person("ann").post(f"/api/approvals/{asked['approval_id']}/withdraw", json={}))
    elif how == "expired":
        office.end_time_of(asked)
    else:
        accept_policy(office, "two-eyes", approvals={"actions": ["count.*"], "quorum": 2})

    view = ended(office, made["task_id"])
    ends = {
        "withdrawn": ("rejected", "APPROVAL_INVALID"),
        "expired": ("failed", "APPROVAL_EXPIRED"),
        "stale": ("rejected", "GOVERNANCE_CONTEXT_REQUIRED"),
    }
    assert (view["state"], view["error"]["code"]) == ends[how]
    assert (office.show(asked)["state"], counted(outside, given)) == (how, 0)


@pytest.mark.parametrize(
    ("changed", "code", "reason"),
    [
        ({"matter": {"id": "another"}}, "APPROVAL_MISMATCH", None),
        ({"input": {"name": "another"}}, "APPROVAL_MISMATCH", None),
        ({"resource": {"type": "counter", "id": "c-2"}}, "APPROVAL_MISMATCH", None),
        ({"resource": {"type": "counter", "id": "c-1", "version": "2"}}, "APPROVAL_STALE", "TARGET_MOVED"),
        ({"resource": {"type": "counter", "id": "c-1", "sha256": "0" * 64}}, "APPROVAL_STALE", "TARGET_MOVED"),
    ],
)
def test_an_approval_is_good_for_nothing_else(office: Office, changed: Json, code: str, reason: str | None) -> None:
    given = secret()
    consent = approved(office, given)

    refused = problem(submit(office, governed({**given, **changed}, consent)), 409, code)

    assert refused["details"].get("reason") == reason
    assert office.show(consent)["state"] == "approved"


def test_an_approval_is_good_for_one_task(office: Office, outside: Path) -> None:
    given = secret()
    consent = approved(office, given)
    first = data(submit(office, governed(given, consent)), 201)
    ended(office, first["task_id"])

    refused = problem(
        submit(office, governed({**given, "idempotency_key": uuid4().hex}, consent)), 409, "APPROVAL_USED"
    )

    assert refused["details"]["used_by"] == first["task_id"]
    assert counted(outside, given) == 1


def test_of_many_tasks_with_one_approval_one_is_done(office: Office, outside: Path) -> None:
    given = secret()
    asked = ask(office, given)
    waiting = [governed({**given, "idempotency_key": uuid4().hex}, asked) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        made = [data(answer, 201)["task_id"] for answer in pool.map(lambda one: submit(office, one), waiting)]

    data(decide(office.person("bob"), asked))

    views = [ended(office, task_id) for task_id in made]
    assert sorted(view["state"] for view in views) == [*["failed"] * 7, "succeeded"]
    assert {view["error"]["code"] for view in views if view["state"] == "failed"} == {"APPROVAL_USED"}
    assert counted(outside, given) == 1


@pytest.mark.parametrize("ref", [str(uuid4()), "not-even-an-id"])
def test_a_forged_approval_is_refused(office: Office, ref: str) -> None:
    refused = problem(submit(office, governed(secret(), {"approval_id": ref})), 403, "APPROVAL_INVALID")

    assert refused["details"]["reason"] == "NOT_FOUND"


def test_an_approval_of_another_tenant_is_no_approval(office: Office) -> None:
    given = secret()
    elsewhere = Office(office.server, add_tenant(office.server))
    foreign = approved(elsewhere, given)
    elsewhere.close()

    problem(submit(office, governed(given, foreign)), 403, "APPROVAL_INVALID")


def test_who_approved_it_cannot_do_it_nor_have_it_done_for_them_under_a_grant(office: Office) -> None:
    given = secret()
    consent = approved(office, given)
    for_bob = {**given, "actor": {"id": "ann", "type": "human", "on_behalf_of": "bob"}}
    by_bob = {**given, "actor": {"id": "bob", "type": "human"}}
    data(office.person("bob").post("/api/grants", json={"agent": "ann"}), 201)

    problem(submit(office, governed(by_bob, consent), "bob"), 403, "SELF_APPROVAL")
    problem(office.person("ann", "org_admin").post("/api/tasks", json=governed(for_bob, consent)), 403, "SELF_APPROVAL")


def test_a_policy_that_is_not_in_force_or_was_another_is_named_with_the_version_in_force(office: Office) -> None:
    given = secret()
    consent = approved(office, given)
    refs = ["contracts-approval@0", "made-up@1"]

    refused = problem(submit(office, governed(given, consent, policies=refs)), 409, "POLICY_STALE")

    assert refused["details"]["policies"] == [
        {"id": "contracts-approval", "version": "0", "in_force": "1"},
        {"id": "made-up", "version": "1", "in_force": None},
    ]


def test_the_stricter_of_all_policies_is_what_counts(office: Office, outside: Path) -> None:
    accept_policy(office, "two-eyes", approvals={"actions": ["count.*"], "quorum": 2, "roles": ["org_admin", "viewer"]})
    accept_policy(office, "fast", approvals={"actions": ["count.secret"], "valid_hours": 2})
    given = secret()
    asked = ask(office, given)

    assert (asked["quorum"], asked["roles"], asked["people_only"]) == (2, ["org_admin"], True)
    assert {one["id"] for one in asked["policies"]} == {"contracts-approval", "two-eyes", "fast"}
    refs = [f"{one['id']}@{one['version']}" for one in asked["policies"]]
    made = data(submit(office, governed(given, asked, policies=refs)), 201)
    data(decide(office.person("bob", "org_admin"), asked))
    assert status(office, made["task_id"])["state"] == "input_required"
    data(decide(office.person("cyd", "org_admin"), asked))

    assert (ended(office, made["task_id"])["state"], counted(outside, given)) == ("succeeded", 1)


def test_a_policy_may_demand_approvals_for_what_is_not_sensitive(office: Office) -> None:
    accept_policy(
        office, "all-counted", approvals={"actions": ["count.once"], "people_only": False, "roles": ["operator"]}
    )
    given = {**secret(), "action": "count.once"}

    refused = problem(submit(office, given), 403, "GOVERNANCE_CONTEXT_REQUIRED")

    policies, approvals = refused["details"]["missing"]
    assert [one["id"] for one in policies["policies"]] == ["all-counted"]
    assert (approvals["people_only"], approvals["roles"]) == (False, ["operator"])


def test_a_program_decides_where_policy_lets_it_and_says_what_it_saw(office: Office) -> None:
    accept_policy(office, "all-counted", approvals={"actions": ["count.once"], "people_only": False})
    asked = ask(office, {**secret(), "action": "count.once"})
    robot = office.program("robot")

    problem(decide(robot, asked), 400, "INVALID_PARAMS")

    assert data(decide(robot, asked, digest=asked["digest"]))["state"] == "approved"


def test_an_approval_goes_stale_when_its_policy_is_changed_and_not_when_other_knowledge_is(office: Office) -> None:
    accept_policy(office, "two-eyes", approvals={"actions": ["count.*"], "quorum": 1})
    given = secret()
    consent = approved(office, given)
    refs = [f"{one['id']}@{one['version']}" for one in consent["policies"]]
    accept_policy(office, "unrelated", approvals={"actions": ["deploy"]})
    dry = governed(given, consent, policies=refs) | {"request": {"dry_run": True}}
    data(submit(office, dry), 201)

    accept_policy(office, "two-eyes", approvals={"actions": ["count.*"], "quorum": 2})

    moved = problem(submit(office, governed(given, consent, policies=refs)), 409, "POLICY_STALE")
    assert moved["details"]["policies"][0]["id"] == "two-eyes"
    newest = ["contracts-approval", "two-eyes"]
    stale = problem(submit(office, governed(given, consent, policies=newest)), 409, "APPROVAL_STALE")
    assert stale["details"]["reason"] == "POLICY_MOVED"
    wait_for(lambda: office.show(consent)["state"] == "stale", "the sweep")


def test_a_rule_on_actions_refuses_sensitive_or_not_and_can_be_replayed(office: Office) -> None:
    data(submit(office, envelope(actor={"id": "ann", "type": "human"})), 201)
    cedar = '@id("no-counting") forbid (principal in Role::"operator", action == Action::"count.nothing", resource);'
    accept_policy(office, "no-counting", cedar=cedar)

    refused = problem(submit(office, envelope(actor={"id": "ann", "type": "human"})), 403, "POLICY_REFUSED")

    assert [one["id"] for one in refused["details"]["policies"]] == ["no-counting"]
    [decision] = data(office.person("root", "org_admin").get("/api/governance/decisions"))
    assert (decision["kind"], decision["valid"], decision["subject"]) == ("action", False, "ann")


def test_a_dry_run_is_judged_and_uses_nothing_up(office: Office, outside: Path) -> None:
    given = secret(request={"dry_run": True})
    consent = approved(office, given)

    made = data(submit(office, governed(given, consent)), 201)
    ended(office, made["task_id"])

    assert (office.show(consent)["state"], counted(outside, given)) == ("approved", 0)
