"""Approvals and decisions as they go into a store and come out of it."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from dragoman.context import PrincipalType
from dragoman.services.approvals.models import Verdict

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NewApproval:
    """A request on its way into the record."""

    id: UUID
    digest: str
    action: str
    resource: Record
    matter_id: str
    input: Record
    policies: list[Record]
    quorum: int
    roles: list[str]
    people_only: bool
    requested_by: str
    parties: list[str]
    reason: str | None
    valid_for: timedelta
    facts: Record = field(default_factory=dict[str, Any])
    actor: str | None = None
    on_behalf_of: str | None = None
    grants: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which approvals a list has; `decider` is one who could decide them, with what they are."""

    limit: int
    before: UUID | None
    state: str | None
    action: str | None
    matter_id: str | None
    requested_by: str | None
    decider: str | None
    roles: list[str]
    is_person: bool


@dataclass(frozen=True, slots=True)
class NewDecision:
    """What one decider says."""

    subject: str
    principal_type: str
    role: str
    decision: str
    reason: str | None
    digest: str | None


def programs_that_approved(row: Record) -> list[str]:
    """Return the programs among those who approved a request."""
    return [
        one["by"]
        for one in row["decisions"]
        if one["decision"] == Verdict.APPROVE and one["type"] != PrincipalType.USER
    ]
