"""What anomalies look like on wires."""

from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, StringConstraints

from dragoman.operations import Input, ListInput, Output
from dragoman.text import Text
from dragoman_costs.anomalies.detection import Shape
from dragoman_costs.money import Amount

Reason = Annotated[Text, StringConstraints(min_length=1, max_length=2_000)]


class AnomalyStatus(StrEnum):
    """Open and acknowledged ones need attention; the others are done with."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"
    DISMISSED = "dismissed"


class AnomalyDecision(StrEnum):
    """What a person makes of an anomaly."""

    ACKNOWLEDGE = "acknowledge"
    RESOLVE = "resolve"
    DISMISS = "dismiss"


class ListAnomalies(ListInput):
    """Filters for a list of anomalies."""

    status: AnomalyStatus | None = Field(None, description="Only those in this state.")
    account_id: UUID | None = Field(None, description="Only those of this cloud account.")
    provider: str | None = Field(None, max_length=100, description="Only this provider, as its bills call it.")
    service: str | None = Field(None, max_length=200, description="Only this service.")
    since: date | None = Field(None, description="Only those that began on this day or later.")
    until: date | None = Field(None, description="Only those that began on this day or before.")
    least_excess: Amount | None = Field(None, description="Only those that cost at least this much too much.")


class AnomalyRef(Input):
    """One anomaly."""

    anomaly_id: UUID


class DecideAnomaly(AnomalyRef):
    """Say what is made of an anomaly. Dismissing one takes a reason."""

    decision: AnomalyDecision
    reason: Reason | None = None


Dimension = Literal["region", "sub_account", "resource"]


class Cause(Output):
    """What a region, a sub account or a resource adds to the excess; within a dimension they add up to it."""

    dimension: Dimension
    name: str
    expected: Amount
    actual: Amount
    excess: Amount


class Anomaly(Output):
    """Days on which a service of an account did not cost what was expected."""

    id: UUID
    status: AnomalyStatus
    shape: Shape = Field(
        description="spike and drop pass; step_up and step_down stay; new is a service without a past."
    )
    day: date = Field(description="The first day.")
    last_day: date
    account_id: UUID
    provider: str
    service: str
    currency: str
    expected: Amount = Field(description="Effective cost of the first day as it was to be expected.")
    actual: Amount
    excess: Amount = Field(description="Of the first day; negative where it cost too little.")
    total_excess: Amount = Field(description="Of all its days; a step counts until it became the new normal.")
    score: float = Field(description="How many times the usual deviation the first day is off.")
    title: str
    causes: list[Cause]
    reason: str | None
    decided_by: str | None
    decided_at: datetime | None
    found_at: datetime


class AnomalyTotals(Output):
    """What a dashboard says of anomalies, in one currency."""

    currency: str
    open: int
    excess: Amount = Field(description="What open ones cost too much, altogether.")
