"""What is asked of approvals, and what they look like."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, StringConstraints

from dragoman.context import PrincipalType, Role
from dragoman.operations import Input, ListInput, Output
from dragoman.services.governance.approval_rules import MOST_APPROVALS, MOST_HOURS
from dragoman.services.tasks.actions.envelope import ACTION, PolicyRef, Resource
from dragoman.text import Subject, Text

Action = Annotated[str, Field(pattern=ACTION, examples=["signature.send"])]
MatterId = Annotated[str, Field(min_length=1, max_length=200, examples=["matter-7"])]
Reason = Annotated[Text, StringConstraints(max_length=2_000)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class ApprovalState(StrEnum):
    """Where an approval stands. Only `pending` and `approved` can still become something else."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CONSUMED = "consumed"
    STALE = "stale"
    WITHDRAWN = "withdrawn"


class Verdict(StrEnum):
    """What one person says."""

    APPROVE = "approve"
    DENY = "deny"


class RequestApproval(Input):
    """Ask for consent to exactly this; policies say who must give it, and what is given here can only be stricter."""

    action: Action
    resource: Resource
    matter_id: MatterId
    input: dict[str, Any] = Field(default_factory=dict[str, Any], description="As the action will be given it.")
    policy_refs: list[PolicyRef] = Field([], max_length=50, description="Policies beside those that demand it.")
    reason: Reason | None = Field(None, description="Why it should be done.")
    actor: Subject | None = Field(
        None, description="Who is to act: the caller, or one that a grant lets the caller act for; else it is a claim."
    )
    on_behalf_of: Subject | None = Field(None, description="For whom they act; likewise.")
    quorum: int | None = Field(None, ge=1, le=MOST_APPROVALS, description="How many must approve, if more than needed.")
    roles: list[Role] | None = Field(None, min_length=1, max_length=6, description="Who may decide, if fewer than may.")
    valid_hours: int | None = Field(None, ge=1, le=MOST_HOURS, description="For how long, if shorter than allowed.")


class ApprovalRef(Input):
    """One approval."""

    approval_id: UUID


class ListApprovals(ListInput):
    """Some approvals, newest first."""

    state: ApprovalState | None = None
    action: Action | None = None
    matter_id: MatterId | None = None
    mine: bool = Field(default=False, description="Only those that the caller asked for.")
    decidable: bool = Field(default=False, description="Only those that the caller could approve now.")


class DecideApproval(ApprovalRef):
    """Say yes or no. The digest is that of what was seen; a program must state it, a person may."""

    decision: Verdict
    reason: Reason | None = None
    digest: Digest | None = Field(None, description="Of what was shown; another one than the approval's is refused.")


class WithdrawApproval(ApprovalRef):
    """Take a request back, decided or not."""

    reason: Reason | None = None


class PolicyVersion(Output):
    """A policy as it was."""

    id: str
    version: str


class DecisionView(Output):
    """What one decider said."""

    by: str
    type: PrincipalType
    role: Role
    decision: Verdict
    reason: str | None = None
    digest: str | None = Field(None, description="As they stated it.")
    at: datetime


class ApprovalSummary(Output):
    """An approval, as a list has it."""

    approval_id: UUID
    state: ApprovalState
    action: str
    resource: dict[str, Any]
    matter_id: str
    digest: str = Field(description="Of action, resource, matter and input: what is approved, and nothing else.")
    requested_by: str
    reason: str | None = None
    policies: list[PolicyVersion] = Field(description="Those that demand it, in the versions it was asked for under.")
    quorum: int
    approved: int = Field(description="How many have approved so far.")
    roles: list[Role] = Field(description="Who may decide.")
    people_only: bool = Field(description="Whether programs are kept from deciding.")
    created_at: datetime
    expires_at: datetime
    closed_at: datetime | None = None
    closed_because: str | None = None
    consumed_by: str | None = Field(None, description="The task that used it.")
    actor: str | None = Field(None, description="Who is to act, as who asked for it says.")
    on_behalf_of: str | None = Field(None, description="For whom, as who asked for it says.")
    grants: dict[str, str] = Field(
        default_factory=dict[str, str], description="Which of the two a grant covers: the name, and the grant's id."
    )
    claims: list[str] = Field(
        default_factory=list[str], description="Which of the two nobody has checked. A claim excludes nobody."
    )

    @property
    def id(self) -> UUID:
        """Sorts by the time it was made."""
        return self.approval_id


class ApprovalView(ApprovalSummary):
    """An approval with everything that a decision is about."""

    input: dict[str, Any]
    parties: list[str] = Field(description="Who must not approve; each of them was checked. They may deny.")
    facts: dict[str, Any] = Field(
        default_factory=dict[str, Any], description="What else the digest covers, such as who is to sign."
    )
    shows: dict[str, Any] = Field(
        default_factory=dict[str, Any],
        description="The resource as it was bound: a document with its text and what changed in it since the version "
        "approved last or the one before, and the signers.",
    )
    decisions: list[DecisionView]
