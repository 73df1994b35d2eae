"""Approvals and decisions as they go into a store and come out of it."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

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
