"""The contract of an approval store: PostgreSQL and the fake that we ship keep the same promises."""

import asyncio
from collections.abc import AsyncIterator
from contextvars import Context
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from dragoman.infra.db import Database, Scope, UniqueViolated
from dragoman.infra.ids import new_id
from dragoman.services.approvals.ports import Approvals, Units
from dragoman.services.approvals.records import NewApproval, NewDecision, Wanted
from dragoman.services.approvals.store import PROMISED, ApprovalStore
from dragoman.services.approvals.testing import InMemoryApprovals
from tests.services.audit.stating import make_statements

HOUR = timedelta(hours=1)
ALL = Wanted(10, None, None, None, None, None, None, [], is_person=True)


@dataclass(frozen=True)
class UnderTest:
    """A store, its units of work, and a tenant of the test's own."""

    store: Approvals
    db: Units
    scope: Scope = field(default_factory=lambda: Scope(uuid4()))

    async def add(self, **changes: Any) -> UUID:
        """Store a request and return its id."""
        new = new_approval(**changes)
        await self.store.add(self.scope, new)
        return new.id

    async def decide(self, approval_id: UUID, by: str, state: str | None = None, decision: str = "approve") -> None:
        """Store a decision."""
        await self.store.decide(
            self.scope, approval_id, NewDecision(by, "user", "operator", decision, None, None), state
        )

    async def get(self, approval_id: UUID) -> dict[str, Any]:
        """Return an approval that there is."""
        row = await self.store.find(self.scope, approval_id)
        assert row is not None
        return row

    async def listed(self, **changes: Any) -> list[UUID]:
        """Return the ids of a page."""
        return [row["approval_id"] for row in await self.store.list_page(self.scope, replace(ALL, **changes))]


def new_approval(**changes: Any) -> NewApproval:
    """A request that asks for one of two roles, with some fields as the test wants them."""
    fields: dict[str, Any] = {
        "id": new_id(), "digest": "d" * 64, "action": "signature.send", "resource": {"type": "document", "id": "nda"},
        "matter_id": "matter-7", "input": {"to": ["bob"]}, "policies": [{"id": "p", "version": "1"}], "quorum": 2,
        "roles": ["operator", "org_admin"], "people_only": True, "requested_by": "ann", "parties": ["ann"],
        "reason": "due", "valid_for": HOUR,
    }  # fmt: skip
    return NewApproval(**fields | changes)


@pytest.fixture(params=["fake", "postgresql"])
async def approvals(request: pytest.FixtureRequest) -> AsyncIterator[UnderTest]:
    """The fake, then the store that it stands for."""
    if request.param == "fake":
        fake = InMemoryApprovals()
        yield UnderTest(fake, fake)
        return
    db = Database(request.getfixturevalue("schema_url"), size=4)
    yield UnderTest(ApprovalStore(db, make_statements(db, PROMISED)), db)
    await db.stop()


async def test_a_request_is_found_as_it_was_stored(approvals: UnderTest) -> None:
    new = new_approval()

    await approvals.store.add(approvals.scope, new)
    row = await approvals.get(new.id)

    assert row.pop("expires_at") - row.pop("created_at") == HOUR
    assert row == {
        "approval_id": new.id, "state": "pending", "digest": new.digest, "action": new.action,
        "resource": new.resource, "matter_id": new.matter_id, "input": new.input, "policies": new.policies,
        "quorum": 2, "approved": 0, "roles": new.roles, "people_only": True, "requested_by": "ann",
        "parties": ["ann"], "reason": "due", "closed_at": None, "closed_because": None, "consumed_by": None,
        "decisions": [], "facts": {}, "actor": None, "on_behalf_of": None,
        "grants": {},
    }  # fmt: skip


async def test_what_a_caller_does_with_a_record_changes_nothing_stored(approvals: UnderTest) -> None:
    approval_id = await approvals.add()
    await approvals.decide(approval_id, "bob")

    row = await approvals.get(approval_id)
    row["input"]["to"].append("eve")
    row["decisions"].clear()

    assert (await approvals.get(approval_id))["input"] == {"to": ["bob"]}
    assert [one["by"] for one in (await approvals.get(approval_id))["decisions"]] == ["bob"]


async def test_an_id_is_used_once_in_a_tenant(approvals: UnderTest) -> None:
    approval_id = await approvals.add()

    with pytest.raises(UniqueViolated):
        await approvals.add(id=approval_id, action="document.draft")
    await approvals.store.add(Scope(uuid4()), new_approval(id=approval_id))

    assert (await approvals.get(approval_id))["action"] == "signature.send"


async def test_those_that_there_are_come_in_the_order_of_their_ids(approvals: UnderTest) -> None:
    first, second = await approvals.add(), await approvals.add()

    rows = await approvals.store.find_all(approvals.scope, [second, uuid4(), first, second])

    assert [row["approval_id"] for row in rows] == [first, second]
    assert await approvals.store.find(approvals.scope, uuid4()) is None


async def test_another_tenant_sees_and_changes_nothing(approvals: UnderTest) -> None:
    approval_id, other = await approvals.add(), Scope(uuid4())
    await approvals.decide(approval_id, "bob", "approved")

    assert await approvals.store.find(other, approval_id, lock=True) is None
    assert await approvals.store.list_page(other, ALL) == []
    assert await approvals.store.consume(other, [approval_id], "task") == 0
    await approvals.store.withdraw(other, approval_id, "mine")

    assert (await approvals.get(approval_id))["state"] == "approved"


async def test_decisions_are_kept_in_order_and_approvals_among_them_counted(approvals: UnderTest) -> None:
    approval_id = await approvals.add()
    await approvals.decide(approval_id, "bob")
    await approvals.decide(approval_id, "cleo", "denied", "deny")

    row = await approvals.get(approval_id)
    decisions = [{name: value for name, value in one.items() if name != "at"} for one in row["decisions"]]

    assert (row["state"], row["approved"], row["closed_at"] is None) == ("denied", 1, False)
    assert decisions == [
        {"approval_id": approval_id, "by": by, "type": "user", "role": "operator", "decision": decision, "reason": None,
         "digest": None}
        for by, decision in (("bob", "approve"), ("cleo", "deny"))
    ]  # fmt: skip


async def test_a_second_decision_of_one_decider_leaves_nothing_behind(approvals: UnderTest) -> None:
    approval_id = await approvals.add()
    await approvals.decide(approval_id, "bob")

    with pytest.raises(UniqueViolated):
        await approvals.decide(approval_id, "bob", "denied", "deny")
    row = await approvals.get(approval_id)

    assert (row["state"], row["approved"], len(row["decisions"])) == ("pending", 1, 1)


async def test_an_approved_one_is_still_open_and_can_be_withdrawn(approvals: UnderTest) -> None:
    approval_id = await approvals.add()
    await approvals.decide(approval_id, "bob", "approved")
    approved = await approvals.get(approval_id)

    await approvals.store.withdraw(approvals.scope, approval_id, "no need")
    withdrawn = await approvals.get(approval_id)

    assert (approved["state"], approved["closed_at"]) == ("approved", None)
    assert (withdrawn["state"], withdrawn["closed_because"]) == ("withdrawn", "no need")
    assert withdrawn["closed_at"] is not None


async def test_one_that_has_ended_stays_as_it_ended(approvals: UnderTest) -> None:
    denied, consumed = await approvals.add(), await approvals.add()
    await approvals.decide(denied, "bob", "denied", "deny")
    await approvals.decide(consumed, "bob", "approved")
    await approvals.store.consume(approvals.scope, [consumed], "task-1")

    await approvals.decide(denied, "cleo", "approved")
    await approvals.store.withdraw(approvals.scope, consumed, "late")
    used = await approvals.store.consume(approvals.scope, [denied, consumed], "task-2")

    assert used == 0
    assert (await approvals.get(denied))["state"] == "denied"
    assert [(await approvals.get(consumed))[name] for name in ("state", "consumed_by", "closed_because")] == [
        "consumed", "task-1", None,
    ]  # fmt: skip


async def test_only_approved_ones_are_used_up(approvals: UnderTest) -> None:
    pending, approved = await approvals.add(), await approvals.add()
    await approvals.decide(approved, "bob", "approved")

    used = await approvals.store.consume(approvals.scope, [pending, approved, approved], "task-1")

    assert used == 1
    assert [(await approvals.get(one))["state"] for one in (pending, approved)] == ["pending", "consumed"]


async def test_one_whose_time_is_over_has_expired_in_every_view(approvals: UnderTest) -> None:
    pending, approved, lasting = (
        await approvals.add(valid_for=-HOUR),
        await approvals.add(valid_for=-HOUR),
        await approvals.add(),
    )
    await approvals.decide(approved, "bob", "approved")

    assert [(await approvals.get(one))["state"] for one in (pending, approved)] == ["expired", "expired"]
    assert await approvals.listed(state="expired") == [approved, pending]
    assert await approvals.listed(state="pending") == [lasting]
    assert await approvals.listed(decider="bob", roles=["operator"]) == [lasting]
    assert await approvals.store.consume(approvals.scope, [approved], "task-1") == 0


async def test_a_list_has_summaries_newest_first_page_by_page(approvals: UnderTest) -> None:
    ids = [await approvals.add() for _ in range(3)]
    whole = await approvals.get(ids[2])

    [first] = await approvals.store.list_page(approvals.scope, replace(ALL, limit=1))

    assert first == {
        name: value for name, value in whole.items() if name not in ("input", "parties", "facts", "decisions")
    }
    assert await approvals.listed() == ids[::-1]
    assert await approvals.listed(before=ids[1]) == ids[:1]


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({"action": "document.draft"}, {"action": "document.draft"}),
        ({"matter_id": "matter-8"}, {"matter_id": "matter-8"}),
        ({"requested_by": "bob"}, {"requested_by": "bob"}),
    ],
)
async def test_a_list_has_what_is_wanted(approvals: UnderTest, changed: dict[str, Any], wanted: dict[str, Any]) -> None:
    await approvals.add()
    approval_id = await approvals.add(**changed)

    assert await approvals.listed(**wanted) == [approval_id]


async def test_a_list_has_what_a_caller_could_decide(approvals: UnderTest) -> None:
    await approvals.add(parties=["bob"])
    await approvals.add(roles=["org_admin"])
    decided, for_people, for_all = await approvals.add(), await approvals.add(), await approvals.add(people_only=False)
    await approvals.decide(decided, "bob")

    assert await approvals.listed(decider="bob", roles=["operator"]) == [for_all, for_people]
    assert await approvals.listed(decider="bob", roles=["operator"], is_person=False) == [for_all]
    assert await approvals.listed(decider="bob", roles=[]) == []


async def test_of_two_that_use_an_approval_at_once_one_gets_it(approvals: UnderTest) -> None:
    approval_id = await approvals.add()
    await approvals.decide(approval_id, "bob", "approved")

    used = await asyncio.gather(
        *(approvals.store.consume(approvals.scope, [approval_id], f"task-{n}") for n in range(4))
    )

    assert sorted(used) == [0, 0, 0, 1]
    assert (await approvals.get(approval_id))["consumed_by"] == f"task-{used.index(1)}"


async def test_who_locks_an_approval_sees_what_the_one_before_did(approvals: UnderTest) -> None:
    approval_id, seen = await approvals.add(), list[int]()

    async def decide(by: str) -> None:
        async with approvals.db.unit(approvals.scope):
            row = await approvals.store.find(approvals.scope, approval_id, lock=True)
            seen.append(row["approved"] if row else -1)
            await approvals.decide(approval_id, by)

    await asyncio.gather(*(decide(f"p{n}") for n in range(4)))

    assert seen == [0, 1, 2, 3]


async def test_a_unit_that_fails_leaves_nothing_and_announces_nothing(approvals: UnderTest) -> None:
    approval_id, told = await approvals.add(), list[str]()

    async def tell() -> None:
        told.append("told")

    async def fail() -> None:
        async with approvals.db.unit(approvals.scope):
            await approvals.decide(approval_id, "bob", "approved")
            await approvals.db.after_commit(tell)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()

    row = await approvals.get(approval_id)
    assert (row["state"], row["decisions"], told) == ("pending", [], [])


async def test_a_unit_is_seen_by_others_and_announced_once_it_is_committed(approvals: UnderTest) -> None:
    approval_id, told = await approvals.add(), list[str]()

    async def tell() -> None:
        told.append((await approvals.get(approval_id))["state"])
        raise ZeroDivisionError  # it is committed: nobody else is held up by this

    async with approvals.db.unit(approvals.scope):
        await approvals.decide(approval_id, "bob", "approved")
        await approvals.db.after_commit(tell)
        await approvals.db.after_commit(tell)
        inside = await approvals.get(approval_id)
        outside = await asyncio.create_task(approvals.get(approval_id), context=Context())
        early = list(told)

    assert (inside["state"], outside["state"], early) == ("approved", "pending", [])
    assert told == ["approved", "approved"]


async def test_a_unit_is_of_one_scope(approvals: UnderTest) -> None:
    async with approvals.db.unit(approvals.scope):
        with pytest.raises(RuntimeError):
            await approvals.store.find(Scope(uuid4()), uuid4())
