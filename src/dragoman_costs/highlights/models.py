"""What a dashboard says of anomalies and savings; everything stands apart by currency."""

from datetime import date
from uuid import UUID

from pydantic import Field

from dragoman.operations import Input, Output
from dragoman_costs.anomalies.models import Anomaly, AnomalyTotals
from dragoman_costs.recommendations.models import Recommendation, Savings


class LookAtAnomalies(Input):
    """Which days, and how many anomalies."""

    start_date: date | None = Field(None, description="Only those that began on this day or later.")
    end_date: date | None = Field(None, description="Only those that began on this day or before.")
    provider: str | None = Field(None, min_length=1, max_length=200, description="Only this provider.")
    account_id: UUID | None = Field(None, description="Only this cloud account.")
    limit: int = Field(10, ge=1, le=200, description="How many at most; the newest come first.")


class AnomalyHighlights(Output):
    """The anomalies that need attention."""

    totals: list[AnomalyTotals] = Field(description="Of all days, by currency.")
    items: list[Anomaly]


class LookAtSavings(Input):
    """How many recommendations."""

    account_id: UUID | None = Field(None, description="Only those of this cloud account.")
    limit: int = Field(10, ge=1, le=200, description="How many at most; the largest savings come first.")


class SavingHighlights(Output):
    """What could be saved and what was."""

    totals: list[Savings] = Field(description="Found, approved, executed and realised, by currency.")
    items: list[Recommendation] = Field(description="Pending ones.")
