"""Approvals held against what is about to be done with them, and used up."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from dragoman.context import Caller
from dragoman.infra.db import Scope, scope_of
from dragoman.services.approvals.errors import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalInvalid,
    ApprovalMismatch,
    ApprovalStale,
    ApprovalUsed,
    SelfApproval,
    TargetMoved,
    stale,
)
from dragoman.services.approvals.models import ApprovalState, Verdict
from dragoman.services.approvals.ports import Approvals, Makers, Units
from dragoman.services.approvals.records import Record, programs_that_approved
from dragoman.services.approvals.requirements import moved
from dragoman.services.governance.ports import PolicyBook
from dragoman.services.tasks.actions.envelope import Resource, digest_of_action


@dataclass(frozen=True, slots=True)
class Use:
    """What is about to be done, by whom; `user` is what uses the approvals up: a canonical task, as a rule."""

    action: str
    resource: Resource
    matter_id: str
    input: dict[str, Any]
    parties: frozenset[str]
    user: str | None
    facts: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def digest(self) -> str:
        """What an approval must be for."""
        return digest_of_action(self.action, self.resource, self.matter_id, self.input, self.facts)


class Consent:
    """Whether approvals cover a use."""

    def __init__(self, store: Approvals, db: Units, makers: Makers) -> None:
        self._store = store
        self._db = db
        self._makers = makers

    async def hold(
        self, caller: Caller, book: PolicyBook, refs: Sequence[str], use: Use, *, consume: bool
    ) -> list[Record]:
        """The approvals, once each of them is found to cover the use, or to wait for its deciders.

        With `consume` they are used up, all of them or none: none while one waits. A second use by the same user finds
        its own and goes on.

        Raises:
            DragomanError: one of them does not cover it.
        """
        ids = {_read_id(ref): ref for ref in refs}
        scope = scope_of(caller)
        async with self._db.unit(scope):
            rows = await self._store.find_all(scope, list(ids), lock=consume)
            found = {row["approval_id"] for row in rows}
            if unknown := [ref for approval_id, ref in ids.items() if approval_id not in found]:
                raise ApprovalInvalid(unknown[0], reason="NOT_FOUND")
            digest = use.digest
            for row in rows:
                _check_bound(row, use, digest)
                if own := sorted(await self.approvers(scope, row) & use.parties):
                    raise SelfApproval(row["approval_id"], own[0])
                _check_state(row, book, use)
            waits = any(row["state"] == ApprovalState.PENDING for row in rows)
            if consume and use.user is not None and not waits:
                await self._store.consume(scope, list(ids), use.user)
        return rows

    async def approvers(self, scope: Scope, row: Record) -> set[str]:
        """Return who approved, and who made the keys with which programs did."""
        approved = {one["by"] for one in row["decisions"] if one["decision"] == Verdict.APPROVE}
        programs = programs_that_approved(row)
        return approved | (await self._makers.find_makers(scope, programs) if programs else set())


def _read_id(ref: str) -> UUID:
    try:
        return UUID(ref)
    except ValueError:
        raise ApprovalInvalid(ref, reason="NOT_FOUND") from None


def _check_bound(row: Record, use: Use, digest: str) -> None:
    """Whether it is for this."""
    approval_id = row["approval_id"]
    if row["digest"] != digest:
        if _is_of_same_target(row, use):
            current = use.resource.model_dump(mode="json", exclude_none=True)
            raise TargetMoved(approval_id, approved=row["resource"], current=current)
        raise ApprovalMismatch(approval_id, approved=row["digest"], asked=digest)


def _check_state(row: Record, book: PolicyBook, use: Use) -> None:
    """Whether it can be used, or still waits."""
    approval_id = row["approval_id"]
    match ApprovalState(row["state"]):
        case ApprovalState.CONSUMED:
            if use.user is None or row["consumed_by"] != use.user:
                raise ApprovalUsed(approval_id, row["consumed_by"])
            return
        case ApprovalState.DENIED:
            raise ApprovalDenied(approval_id)
        case ApprovalState.EXPIRED:
            raise ApprovalExpired(approval_id, row["expires_at"].isoformat())
        case ApprovalState.WITHDRAWN:
            raise ApprovalInvalid(str(approval_id), reason="WITHDRAWN")
        case ApprovalState.STALE:
            raise stale(approval_id, row["closed_because"])
        case ApprovalState.PENDING | ApprovalState.APPROVED:
            if gone := moved(book, row["action"], {one["id"]: one["version"] for one in row["policies"]}):
                raise ApprovalStale(approval_id, reason="POLICY_MOVED", policies=gone)


def _is_of_same_target(row: Record, use: Use) -> bool:
    """Whether it was given for another version of what is acted on, and for nothing else."""
    shown: dict[str, Any] = row["resource"]
    same = (row["action"], row["matter_id"]) == (use.action, use.matter_id)
    return (
        same
        and (shown["type"], shown["id"]) == (use.resource.type, use.resource.id)
        and (
            (shown.get("version"), shown.get("sha256"), row["facts"])
            != (use.resource.version, use.resource.sha256, use.facts)
        )
    )
