"""Approvals in memory, for tests of the rules: `ApprovalStore` and its database pass the same contract tests.

approvals = InMemoryApprovals()
service = ApprovalService(approvals, approvals, policies, ...)
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeAlias
from uuid import UUID

import structlog

from dragoman.infra.db import Scope, UniqueViolated
from dragoman.services.approvals.models import ApprovalState, Verdict
from dragoman.services.approvals.records import NewApproval, NewDecision, Record, Wanted

_LOG = structlog.get_logger(__name__)
_OPEN: Final = (ApprovalState.PENDING, ApprovalState.APPROVED)
_NOT_LISTED: Final = ("input", "parties", "facts", "decisions")
_Key: TypeAlias = tuple[UUID | None, UUID]


@dataclass(slots=True)
class _Unit:
    """What a unit of work has changed, which others see once it is committed, and the rows that it has locked."""

    approvals: "InMemoryApprovals"
    scope: Scope
    rows: dict[_Key, Record] = field(default_factory=dict[_Key, Record])
    locked: set[_Key] = field(default_factory=set[_Key])
    locks: AsyncExitStack = field(default_factory=AsyncExitStack)
    after: list[Callable[[], Awaitable[None]]] = field(default_factory=list[Callable[[], Awaitable[None]]])
    open: bool = True


_UNIT: ContextVar[_Unit | None] = ContextVar("dragoman_approvals_in_memory", default=None)


class InMemoryApprovals:
    """Implements `Approvals` and `Units`: pass it as the store and as the database.

    Units run side by side, as on PostgreSQL: each call lets others run first, a write is seen by others after its unit
    has ended, and a locked approval is waited for. A service that forgets a lock fails here too. `now` is its clock.
    """

    def __init__(self, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._rows: dict[_Key, Record] = {}
        self._locks: dict[_Key, asyncio.Lock] = {}

    @asynccontextmanager
    async def unit(self, scope: Scope) -> AsyncGenerator[None]:
        """Keep what the block does if it ends well, and none of it if it raises."""
        async with self._unit(scope):
            yield

    async def after_commit(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Call back once the open unit is committed; at once when there is none."""
        unit = _UNIT.get()
        if unit is not None and unit.approvals is self and unit.open:
            unit.after.append(callback)
        else:
            await callback()

    async def add(self, scope: Scope, new: NewApproval) -> None:
        """Store a request.

        Raises:
            UniqueViolated: the tenant has an approval with this id.
        """
        async with self._statement(scope, [new.id]) as unit:
            if self._find(unit, new.id) is not None:
                raise UniqueViolated("approvals_pkey")
            row = {name: value for name, value in asdict(new).items() if name not in ("id", "valid_for")}
            now = self._now()
            unit.rows[scope.tenant, new.id] = {
                **row, "approval_id": new.id, "state": ApprovalState.PENDING.value, "created_at": now,
                "expires_at": now + new.valid_for, "closed_at": None, "closed_because": None, "consumed_by": None,
                "approved": 0, "decisions": [],
            }  # fmt: skip

    async def find(self, scope: Scope, approval_id: UUID, *, lock: bool = False) -> Record | None:
        """Return an approval with its decisions; with `lock`, others wait for it until the unit ends."""
        found = await self.find_all(scope, [approval_id], lock=lock)
        return found[0] if found else None

    async def find_all(self, scope: Scope, approval_ids: Sequence[UUID], *, lock: bool = False) -> list[Record]:
        """Return those of them that there are, in the order of their ids."""
        async with self._statement(scope, approval_ids if lock else ()) as unit:
            rows = (self._find(unit, approval_id) for approval_id in sorted(set(approval_ids)))
            return [self._shown(row) for row in rows if row is not None]

    async def list_page(self, scope: Scope, wanted: Wanted) -> list[Record]:
        """Return some without input, parties and decisions, newest first."""
        async with self._statement(scope) as unit:
            keys = sorted(self._rows.keys() | unit.rows.keys(), key=lambda key: key[1], reverse=True)
            rows = (self._find(unit, approval_id) for tenant, approval_id in keys if tenant == scope.tenant)
            found = [shown for row in rows if row is not None and _matches(shown := self._shown(row), wanted)]
            return [{name: row[name] for name in row if name not in _NOT_LISTED} for row in found[: wanted.limit]]

    async def decide(self, scope: Scope, approval_id: UUID, decision: NewDecision, state: str | None) -> None:
        """Store a decision, and the state that follows from it, if any.

        Raises:
            UniqueViolated: the decider has decided before.
        """
        async with self._statement(scope, [approval_id]) as unit:
            row = self._changed(unit, approval_id)
            if row is None:
                return
            if any(one["by"] == decision.subject for one in row["decisions"]):
                raise UniqueViolated("approval_decisions_pkey")
            made = asdict(decision)
            made = {"approval_id": approval_id, "by": made.pop("subject"), "type": made.pop("principal_type"), **made}
            row["decisions"].append({**made, "at": self._now()})
            row["approved"] += decision.decision == Verdict.APPROVE
            if state is not None:
                self._close(row, state, None)

    async def withdraw(self, scope: Scope, approval_id: UUID, because: str | None) -> None:
        """Take an open approval back."""
        async with self._statement(scope, [approval_id]) as unit:
            if (row := self._changed(unit, approval_id)) is not None:
                self._close(row, ApprovalState.WITHDRAWN, because)

    async def approved_version(self, scope: Scope, resource: Record, before: UUID) -> str | None:
        """Return the version of a resource that the last approval before this one was for."""
        async with self._statement(scope) as unit:
            keys = sorted(self._rows.keys() | unit.rows.keys(), key=lambda key: key[1], reverse=True)
            rows = [
                self._find(unit, approval_id)
                for tenant, approval_id in keys
                if tenant == scope.tenant and approval_id < before
            ]
            for row in rows:
                if row is not None and row["state"] in (ApprovalState.APPROVED, ApprovalState.CONSUMED):
                    asked = row["resource"]
                    same = (asked["type"], asked["id"]) == (resource["type"], resource["id"])
                    if same and "version" in asked:
                        return str(asked["version"])
            return None

    async def consume(self, scope: Scope, approval_ids: Sequence[UUID], by: str) -> int:
        """Use up those that are approved and not expired; return how many that were."""
        async with self._statement(scope, approval_ids) as unit:
            rows = [self._changed(unit, approval_id) for approval_id in set(approval_ids)]
            used = [row for row in rows if row is not None and self._state(row) == ApprovalState.APPROVED]
            for row in used:
                row |= {"state": ApprovalState.CONSUMED.value, "consumed_by": by, "closed_at": self._now()}
            return len(used)

    @asynccontextmanager
    async def _unit(self, scope: Scope) -> AsyncGenerator[_Unit]:
        if (unit := self._open_unit(scope)) is not None:
            yield unit
            return
        unit = _Unit(self, scope)
        token = _UNIT.set(unit)
        async with unit.locks:
            try:
                yield unit
                self._rows |= unit.rows
            finally:
                unit.open = False
                _UNIT.reset(token)
        for callback in unit.after:
            try:
                await callback()
            except Exception:  # noqa: BLE001 - as the database does: it is committed
                _LOG.exception("after_commit.failed")

    @asynccontextmanager
    async def _statement(self, scope: Scope, locked: Sequence[UUID] = ()) -> AsyncGenerator[_Unit]:
        """Run one call within the open unit or one of its own, after others had a chance to come first."""
        async with self._unit(scope) as unit:
            await asyncio.sleep(0)
            for approval_id in sorted(set(locked)):
                key = scope.tenant, approval_id
                if key not in unit.locked:
                    await unit.locks.enter_async_context(self._locks.setdefault(key, asyncio.Lock()))
                    unit.locked.add(key)
            yield unit

    def _open_unit(self, scope: Scope) -> _Unit | None:
        unit = _UNIT.get()
        if unit is None or unit.approvals is not self or not unit.open:
            return None
        if unit.scope != scope:
            raise RuntimeError(f"a unit of work for {unit.scope} cannot run a statement for {scope}")
        return unit

    def _find(self, unit: _Unit, approval_id: UUID) -> Record | None:
        key = unit.scope.tenant, approval_id
        return unit.rows.get(key) or self._rows.get(key)

    def _changed(self, unit: _Unit, approval_id: UUID) -> Record | None:
        """Return the unit's own copy of a row, to be changed."""
        if (row := self._find(unit, approval_id)) is None:
            return None
        return unit.rows.setdefault((unit.scope.tenant, approval_id), deepcopy(row))

    def _state(self, row: Record) -> str:
        over = row["state"] in _OPEN and row["expires_at"] <= self._now()
        return ApprovalState.EXPIRED.value if over else row["state"]

    def _shown(self, row: Record) -> Record:
        return {**deepcopy(row), "state": self._state(row)}

    def _close(self, row: Record, state: str, because: str | None) -> None:
        if row["state"] in _OPEN:
            closed_at = None if state == ApprovalState.APPROVED else self._now()
            row |= {"state": str(state), "closed_because": because, "closed_at": closed_at}


def _matches(row: Record, wanted: Wanted) -> bool:
    exact = {"state": wanted.state, "action": wanted.action, "matter_id": wanted.matter_id,
             "requested_by": wanted.requested_by}  # fmt: skip
    return (
        (wanted.before is None or row["approval_id"] < wanted.before)
        and all(value is None or row[name] == value for name, value in exact.items())
        and (wanted.decider is None or _is_decidable(row, wanted.decider, wanted))
    )


def _is_decidable(row: Record, decider: str, wanted: Wanted) -> bool:
    return (
        row["state"] == ApprovalState.PENDING
        and bool(set(row["roles"]) & set(wanted.roles))
        and (wanted.is_person or not row["people_only"])
        and decider not in row["parties"]
        and all(one["by"] != decider for one in row["decisions"])
    )
