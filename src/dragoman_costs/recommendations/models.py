"""What recommendations look like on wires."""

from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, StringConstraints

from dragoman.operations import Input, ListInput, Output
from dragoman.text import Text
from dragoman_costs.money import Amount
from dragoman_costs.recommendations.findings import Confidence, Exclusions, Kind, Risk

Json = dict[str, Any]
Reason = Annotated[Text, StringConstraints(min_length=1, max_length=2_000)]
RuleName = Annotated[str, Field(min_length=1, max_length=100, examples=["rightsize"])]


class RecommendationStatus(StrEnum):
    """Where a recommendation stands."""

    PENDING = "pending"
    APPROVED = "approved"
    EXECUTED = "executed"
    DISMISSED = "dismissed"
    EXPIRED = "expired"


class Order(StrEnum):
    """How a list is sorted."""

    SAVING = "saving"
    NEWEST = "newest"


class ListRecommendations(ListInput):
    """Filters for a list of recommendations."""

    status: RecommendationStatus | None = Field(None, description="Only those in this state.")
    type: Kind | None = Field(None, description="Only this type.")
    rule: RuleName | None = Field(None, description="Only what this rule found.")
    account_id: UUID | None = Field(None, description="Only those of this cloud account.")
    confidence: Confidence | None = Field(None, description="Only this confidence.")
    currency: str | None = Field(None, pattern=r"^[A-Z]{3}$", description="Only savings in this currency.")
    least_saving: Amount | None = Field(None, description="Only those that save at least this much a month.")
    order: Order = Field(Order.SAVING, description="`saving` (largest first, as plain numbers) or `newest`.")


class RecommendationRef(Input):
    """One recommendation."""

    recommendation_id: UUID


class Decision(StrEnum):
    """What is decided about a recommendation."""

    APPROVE = "approve"
    DISMISS = "dismiss"


class DecideRecommendation(RecommendationRef):
    """Approve or dismiss. Dismissing takes a reason."""

    decision: Decision
    reason: Reason | None = None
    expected_version: int | None = Field(
        None, ge=1, le=2**31 - 1, description="Refuse when the recommendation has changed since this version was read."
    )


class ExecuteRecommendation(RecommendationRef):
    """Have an approved recommendation carried out."""

    expected_version: int | None = Field(
        None, ge=1, le=2**31 - 1, description="Refuse when the recommendation has changed since this version was read."
    )


class EvidenceRow(Output):
    """A row of the bills: slice and line find it in the file that it came from. A sum of rows has no line."""

    slice_id: UUID
    line: int | None
    day: date
    amount: Amount


class Evidence(Output):
    """What a recommendation rests on: at most 31 rows, and what follows from all of them."""

    first_day: date
    last_day: date
    days: int
    facts: Json = Field(description="The measures that the rule compared with its thresholds.")
    rows: list[EvidenceRow]


class Recommendation(Output):
    """A saving, as a list has it."""

    id: UUID
    status: RecommendationStatus
    rule: str
    type: Kind
    account_id: UUID
    provider: str
    service: str
    region: str
    resource_id: str
    resource_name: str
    title: str
    saving_monthly: Amount = Field(description="Estimated, of effective cost, in `currency`, for 30 days.")
    currency: str
    confidence: Confidence
    risk: Risk
    version: int = Field(description="Changes when what is recommended does, or its saving by a fifth.")
    expires_at: datetime = Field(description="When it lapses, unless bills confirm it before.")
    task_id: UUID | None = Field(None, description="The task that carries it out, or has done so.")


class RecommendationView(Recommendation):
    """A saving with its evidence, its decisions and what came of it."""

    sub_account: str
    description: str
    current_config: Json
    recommended_config: Json
    content_sha256: str = Field(description="The hash of what would be done: approvals are bound to it.")
    evidence: Evidence
    first_seen_at: datetime
    last_seen_at: datetime
    approved_by: str | None
    decided_by: str | None
    decided_at: datetime | None
    decision_reason: str | None
    executing: bool = Field(description="Whether a task for it is under way; `task_status` shows how far it is.")
    plan: Json | None = Field(None, description="What would be done, where no worker has done it.")
    last_error: Json | None = Field(None, description="Why the last attempt to carry it out failed.")
    executed_at: datetime | None
    executed_by: str | None = Field(None, description="The worker that carried it out.")
    outcome: Json | None = Field(None, description="What that worker answered.")


class Execution(Output):
    """The task that carries a recommendation out."""

    id: UUID = Field(description="Of the recommendation.")
    task_id: UUID
    state: str
    risk: Risk
    waits_for: list[str] = Field(description="Approvals that must be decided first.")
    approvers: list[str] = Field(description="The roles that may decide them; never who asked.")
    performed_by: Literal["worker", "plan"] = Field(
        description="`worker`: a registered worker carries it out. `plan`: there is none, and the result is a plan."
    )


class Measured(Output):
    """Whether the saving of an executed recommendation came, from the bills since."""

    recommendation_id: UUID
    title: str
    type: Kind
    currency: str
    executed_at: datetime
    state: Literal["measured", "too_early", "no_data"]
    days: int = Field(description="Days of bills after the execution that were counted.")
    days_needed: int
    estimated_monthly: Amount
    realised_monthly: Amount | None = Field(description="The saving a day so far, for 30 days; null when too early.")
    realised_to_date: Amount | None
    before_daily: Amount | None
    after_daily: Amount | None
    method: str = Field(description="How it was computed.")


class Savings(Output):
    """Savings in one currency: monthly, of 30 days. Currencies are never added."""

    currency: str
    found: Amount = Field(description="Of pending recommendations.")
    found_count: int
    approved: Amount
    approved_count: int
    executed: Amount = Field(description="As estimated.")
    executed_count: int
    realised: Amount = Field(description="As the bills show it, of those that can be measured.")
    measured_count: int
    too_early_count: int


class ShowSavings(Input):
    """Which executed recommendations are listed one by one."""

    limit: int = Field(100, ge=1, le=500, description="How many executed ones are measured, the latest first.")


class SavingsReport(Output):
    """Found, approved, executed and realised savings."""

    totals: list[Savings]
    executed: list[Measured]


class ListRules(Input):
    """Which rules."""

    rule: RuleName | None = Field(None, description="Only this one.")


class RuleView(Output):
    """A rule with what the tenant set."""

    rule: str
    summary: str
    enabled: bool
    thresholds: Json
    exclusions: Exclusions
    threshold_schema: Json = Field(description="JSON schema of `thresholds`.")
    version: int = Field(description="0 while nothing was set.")
    updated_by: str | None = None
    updated_at: datetime | None = None


class Rules(Output):
    """The rules."""

    items: list[RuleView]


class ConfigureRule(Input):
    """Change a rule; what is left out stays. It holds from the next analysis, which is begun at once."""

    rule: RuleName
    enabled: bool | None = Field(None, description="Whether the rule is used.")
    thresholds: Json | None = Field(None, description="Thresholds by name; those left out stay, null is the default.")
    exclusions: Exclusions | None = Field(None, description="What the rule leaves alone, in place of what it was.")
