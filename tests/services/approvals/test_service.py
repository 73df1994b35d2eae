# ruff: noqa: ARG002 what stands in for others takes what they take
"""The rules of approvals over the store in memory: who counts, for what, until when, and what happens at one moment."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.context import Caller, PrincipalType, Role, TenantId
from dragoman.errors import DragomanError, InvalidInput
from dragoman.infra.db import Scope
from dragoman.infra.ids import new_id
from dragoman.services.approvals.consent import Consent, Use
from dragoman.services.approvals.errors import (
    ApprovalClosed,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalMismatch,
    ApprovalStale,
    ApprovalUsed,
)
from dragoman.services.approvals.models import (
    ApprovalRef,
    ApprovalState,
    ApprovalView,
    DecideApproval,
    RequestApproval,
    Verdict,
    WithdrawApproval,
)
from dragoman.services.approvals.outcomes import Outcomes
from dragoman.services.approvals.service import ApprovalService
from dragoman.services.approvals.targets import BoundTarget, Targets
from dragoman.services.approvals.testing import InMemoryApprovals
from dragoman.services.governance.approval_rules import ApprovalRule
from dragoman.services.governance.policies import Policy
from dragoman.services.governance.ports import PolicyBook
from dragoman.services.tasks.actions.envelope import Resource

NO_POLICIES = PolicyBook("a" * 40, ())
TENANT = TenantId(uuid4())
NDA: dict[str, Any] = {
    "action": "signature.send",
    "resource": {"type": "document", "id": "nda-1", "version": "3"},
    "matter_id": "matter-7",
    "input": {"envelope_id": "env-1"},
}
HOUR = timedelta(hours=1)
GRANT = uuid4()


@dataclass
class Rules:
    """Policies that the test sets."""

    book: PolicyBook = NO_POLICIES

    async def read(self, caller: Caller, revision: str | None = None) -> PolicyBook:
        """Return what is in force."""
        return self.book

    async def in_force(self, tenant: UUID) -> PolicyBook:
        """Return the same."""
        return self.book

    def set(self, *rules: ApprovalRule, version: str = "1") -> None:
        """Put policies with these rules in force."""
        made = (Policy(f"p{n}", "P", "company", None, approvals=one, version=version) for n, one in enumerate(rules))
        self.book = PolicyBook("b" * 40, tuple(made))


class NoAuthors:
    """Knowledge that nobody wrote."""

    async def find(self, tenant: UUID, commit: str) -> frozenset[str]:
        """Return nobody."""
        return frozenset()

    async def among(self, tenant: UUID, commit: str, subjects: Iterable[str]) -> list[str]:
        """Return nobody."""
        return []


@dataclass
class Granted:
    """Who may act for whom: pairs of an agent and a person."""

    pairs: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    async def find(self, caller: Caller, on_behalf_of: str, action: str) -> UUID | None:
        """Find a grant for every action."""
        return GRANT if (caller.subject, on_behalf_of) in self.pairs else None


class NoKeys:
    """Nobody made a key."""

    async def find_makers(self, scope: Scope, subjects: Iterable[str]) -> frozenset[str]:
        """Find nobody."""
        del scope, subjects
        return frozenset()


class _Targets(Targets):
    """Actions that are sensitive where no policy says anything, on resources of which nothing is known."""

    def __init__(self, rules: Rules) -> None:
        super().__init__()
        self._rules = rules

    async def bind(self, caller: Caller, action: str, resource: Resource, given: dict[str, Any]) -> BoundTarget:
        """Return the resource as it is named."""
        return BoundTarget(not self._rules.book.policies, resource, {})


async def _spoil_nothing(tenant: UUID, approval_ids: Sequence[UUID], because: str) -> None:
    raise AssertionError("nothing moves")


@dataclass
class Approvals:
    """The service on a clock, with policies and listeners of the test's own."""

    now: datetime = datetime(2026, 5, 1, tzinfo=UTC)
    rules: Rules = field(default_factory=Rules)
    told: list[str] = field(default_factory=list[str])
    grants: Granted = field(default_factory=Granted)

    def __post_init__(self) -> None:
        store, outcomes = InMemoryApprovals(now=lambda: self.now), Outcomes()
        outcomes.tell(self._listen)
        self.service = ApprovalService(
            store, store, self.rules, targets=_Targets(self.rules), spoil=_spoil_nothing, outcomes=outcomes,
            authors=NoAuthors(), grants=self.grants, makers=NoKeys(), new_id=new_id,
        )  # fmt: skip
        self._consent = Consent(store, store, NoKeys())

    async def ask(self, **changes: Any) -> ApprovalView:
        """Ask as ann."""
        return await self.service.request(person("ann"), RequestApproval.model_validate({**NDA, **changes}))

    async def decide(self, by: Caller, approval: ApprovalView, verdict: str = "approve", **more: Any) -> ApprovalView:
        """Decide."""
        given = DecideApproval(approval_id=approval.approval_id, decision=Verdict(verdict), **more)
        return await self.service.decide(by, given)

    async def show(self, approval: ApprovalView) -> ApprovalView:
        """Return it as it is now."""
        return await self.service.show(person("ann"), ApprovalRef(approval_id=approval.approval_id))

    async def hold(self, *approvals: ApprovalView, user: str = "task-1", **changes: Any) -> list[str]:
        """Use approvals up, and return the states in which they were found."""
        use = replace(USE, user=user, **changes)
        refs = [str(one.approval_id) for one in approvals]
        rows = await self._consent.hold(person("eve"), self.rules.book, refs, use, consume=True)
        return [row["state"] for row in rows]

    async def _listen(self, tenant: UUID, approval_id: str, /) -> None:
        self.told.append(approval_id)


def person(name: str, role: Role = Role.OPERATOR, kind: PrincipalType = PrincipalType.USER) -> Caller:
    """Somebody of the tenant."""
    return Caller(TENANT, "acme", name, kind, frozenset({role}), f"token:{name}", 0.0)


USE = Use(
    NDA["action"], Resource.model_validate(NDA["resource"]), NDA["matter_id"], NDA["input"], frozenset({"eve"}), None
)
BOB, CLEO = person("bob"), person("cleo", Role.ORG_ADMIN)


@pytest.fixture
def approvals() -> Approvals:
    """Without policies: our own is in force."""
    return Approvals()


deciders = st.builds(
    person,
    st.sampled_from(["ann", "bob", "cleo", "dan", "eve"]),
    st.sampled_from([Role.OPERATOR, Role.ORG_ADMIN, Role.VIEWER]),
    st.sampled_from([PrincipalType.USER, PrincipalType.USER, PrincipalType.AGENT]),
)


@given(st.integers(1, 3), st.lists(st.tuples(deciders, st.sampled_from(Verdict)), max_size=12))
def test_an_approval_is_what_distinct_people_who_may_decide_made_of_it(
    quorum: int, tries: list[tuple[Caller, Verdict]]
) -> None:
    """In whichever order: no approval of a party, no program, no other role and no second decision counts."""
    counted: dict[str, Verdict] = {}
    expected = ApprovalState.PENDING
    for caller, verdict in tries:
        may = caller.type is PrincipalType.USER and Role.VIEWER not in caller.roles
        own = caller.subject == "ann" and verdict is Verdict.APPROVE
        if expected is not ApprovalState.PENDING or caller.subject in counted or own or not may:
            continue
        counted[caller.subject] = verdict
        if verdict is Verdict.DENY:
            expected = ApprovalState.DENIED
        elif list(counted.values()).count(Verdict.APPROVE) == quorum:
            expected = ApprovalState.APPROVED

    async def play() -> tuple[ApprovalView, list[str]]:
        approvals = Approvals()
        asked = await approvals.ask(quorum=quorum, actor="eve")
        for caller, verdict in tries:
            try:
                await approvals.decide(caller, asked, verdict, digest=asked.digest)
            except DragomanError:
                continue
        return await approvals.show(asked), approvals.told

    shown, told = asyncio.run(play())

    assert {one.by: one.decision for one in shown.decisions} == counted
    assert (shown.state, len(told)) == (expected, int(expected is not ApprovalState.PENDING))


async def test_of_many_who_decide_at_one_moment_as_many_count_as_are_needed(approvals: Approvals) -> None:
    asked = await approvals.ask(quorum=3)

    said = await asyncio.gather(*(approvals.decide(person(f"p{n}"), asked) for n in range(8)), return_exceptions=True)
    shown = await approvals.show(asked)

    assert (shown.state, shown.approved, len(shown.decisions)) == (ApprovalState.APPROVED, 3, 3)
    assert [type(one) for one in said if isinstance(one, Exception)] == [ApprovalClosed] * 5
    assert approvals.told == [str(asked.approval_id)]


async def test_a_denial_and_an_approval_at_one_moment_leave_one_outcome(approvals: Approvals) -> None:
    asked = await approvals.ask()

    said = await asyncio.gather(
        approvals.decide(BOB, asked), approvals.decide(CLEO, asked, "deny"), return_exceptions=True
    )
    shown = await approvals.show(asked)

    assert [type(one) for one in said].count(ApprovalClosed) == 1
    assert len(shown.decisions) == 1
    assert approvals.told == [str(asked.approval_id)]


async def test_an_approval_ends_at_the_very_moment_it_says(approvals: Approvals) -> None:
    asked, approved = await approvals.ask(valid_hours=2), await approvals.ask(valid_hours=2)
    approvals.now += 2 * HOUR - timedelta(microseconds=1)
    await approvals.decide(BOB, approved)
    approvals.now += timedelta(microseconds=1)

    with pytest.raises(ApprovalExpired):
        await approvals.decide(BOB, asked)
    with pytest.raises(ApprovalExpired):
        await approvals.hold(approved)
    with pytest.raises(ApprovalExpired):
        await approvals.service.withdraw(person("ann"), WithdrawApproval(approval_id=approved.approval_id))

    assert (await approvals.show(approved)).state is ApprovalState.EXPIRED


@pytest.mark.parametrize(
    ("asked", "quorum", "roles", "hours"),
    [
        ({}, 2, ["operator", "org_admin"], 48),
        ({"quorum": 1, "valid_hours": 100}, 2, ["operator", "org_admin"], 48),
        ({"quorum": 3, "roles": ["operator", "viewer"], "valid_hours": 5}, 3, ["operator"], 5),
    ],
)
async def test_a_request_can_only_be_stricter_than_policy(
    approvals: Approvals, asked: dict[str, Any], quorum: int, roles: list[str], hours: int
) -> None:
    either = frozenset({Role.ORG_ADMIN, Role.OPERATOR})
    approvals.rules.set(ApprovalRule(("signature.*",), quorum=2, roles=either, valid_hours=48))

    made = await approvals.ask(**asked)

    assert (made.quorum, made.roles, made.expires_at - made.created_at) == (quorum, roles, hours * HOUR)


async def test_a_program_says_which_digest_it_saw_and_a_wrong_one_counts_for_nobody(approvals: Approvals) -> None:
    approvals.rules.set(ApprovalRule(("signature.*",)))
    asked, program = await approvals.ask(), person("bot", kind=PrincipalType.AGENT)

    with pytest.raises(InvalidInput):
        await approvals.decide(program, asked)
    for caller in (program, BOB):
        with pytest.raises(ApprovalMismatch):
            await approvals.decide(caller, asked, digest="0" * 64)
    unmoved = await approvals.show(asked)
    decided = await approvals.decide(program, asked, digest=asked.digest)

    assert (unmoved.state, unmoved.decisions) == (ApprovalState.PENDING, [])
    assert (decided.state, decided.decisions[0].digest) == (ApprovalState.APPROVED, asked.digest)


async def test_nothing_is_decided_under_policies_that_have_moved_though_no_sweep_came_by(approvals: Approvals) -> None:
    approvals.rules.set(ApprovalRule(("signature.*",)))
    pending, approved = await approvals.ask(), await approvals.ask()
    await approvals.decide(BOB, approved)
    approvals.rules.set(ApprovalRule(("signature.*",)), version="2")

    with pytest.raises(ApprovalStale):
        await approvals.decide(BOB, pending)
    with pytest.raises(ApprovalStale):
        await approvals.hold(approved)
    withdrawn = await approvals.service.withdraw(person("ann"), WithdrawApproval(approval_id=approved.approval_id))

    assert (await approvals.show(pending)).decisions == []
    assert withdrawn.state is ApprovalState.WITHDRAWN


async def test_approvals_are_used_all_or_none(approvals: Approvals) -> None:
    first, waiting, denied = [await approvals.ask() for _ in range(3)]
    await approvals.decide(BOB, first)
    await approvals.decide(BOB, denied, "deny")

    with pytest.raises(ApprovalDenied):
        await approvals.hold(first, denied)
    while_one_waits = await approvals.hold(first, waiting)
    unused = (await approvals.show(first)).state
    await approvals.decide(CLEO, waiting)
    await approvals.hold(first, waiting)

    assert (while_one_waits, unused) == (["approved", "pending"], ApprovalState.APPROVED)
    assert [(await approvals.show(one)).consumed_by for one in (first, waiting)] == ["task-1", "task-1"]


async def test_of_many_tasks_at_one_moment_one_uses_an_approval_and_may_use_it_again(approvals: Approvals) -> None:
    asked = await approvals.ask()
    await approvals.decide(BOB, asked)

    held = await asyncio.gather(*(approvals.hold(asked, user=f"task-{n}") for n in range(5)), return_exceptions=True)
    [user] = [f"task-{n}" for n, found in enumerate(held) if found == ["approved"]]

    assert [type(one) for one in held].count(ApprovalUsed) == 4
    assert await approvals.hold(asked, user=user) == ["consumed"]


async def test_an_approval_covers_the_input_it_was_asked_for_in_whatever_order_it_is_written(
    approvals: Approvals,
) -> None:
    asked = await approvals.ask(input={"a": 1, "b": {"c": [1, 2], "d": None}})
    await approvals.decide(BOB, asked)

    for other in ({"a": 1, "b": {"c": [2, 1], "d": None}}, {"a": 1, "b": {"c": [1, 2]}}, {}):
        with pytest.raises(ApprovalMismatch):
            await approvals.hold(asked, input=other)

    assert await approvals.hold(asked, input={"b": {"d": None, "c": [1, 2]}, "a": 1}) == ["approved"]
