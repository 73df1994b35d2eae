"""What a dashboard takes and shows; everything stands apart by currency."""

from datetime import date
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import Field

from dragoman.operations import Input, Output
from dragoman_costs.highlights.models import AnomalyHighlights, SavingHighlights
from dragoman_costs.money import Amount
from dragoman_costs.query.models import Currency, Day


class Granularity(StrEnum):
    """The length of a step of the trend."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class LookAtCosts(Input):
    """A time, and what to look at; unset, the month of the last day that has data, up to that day."""

    start_date: Day | None = Field(None, description="The first day, in UTC.", examples=["2026-11-01"])
    end_date: Day | None = Field(None, description="The last day, which is included.", examples=["2026-11-18"])
    provider: str | None = Field(None, min_length=1, max_length=200, description="Only this provider.")
    account_id: UUID | None = Field(None, description="Only this cloud account.")
    granularity: Granularity = Field(Granularity.DAY, description="The steps of the trend: day, week or month.")
    currency: Currency | None = Field(
        None, description="Convert all amounts to this currency, by the rates that the tenant has set."
    )


class RankCosts(LookAtCosts):
    """The same, and how many to show."""

    limit: int = Field(20, ge=1, le=200, description="How many at most; the largest come first.")


class Span(Output):
    """Some days, both ends included."""

    start_date: date
    end_date: date


class Change(Output):
    """An amount beside that of the time before, which has as many days and ends the day before."""

    total: Amount
    previous: Amount
    change: Amount
    change_percent: float | None = Field(description="null where there was nothing before.")


class Share(Change):
    """What one provider, service or account adds to the total."""

    name: str
    id: str | None = Field(None, description="The id of an account.")
    provider: str | None = Field(None, description="The provider of a service.")
    share_percent: float | None


class Outlook(Span):
    """What days are likely to add up to: what is known of them, and a forecast of the rest."""

    known: Amount = Field(description="What the days that are over have cost.")
    total: Amount = Field(description="Known and expected together.")
    low: Amount = Field(description="In one of ten cases it will be less.")
    high: Amount = Field(description="In one of ten cases it will be more.")
    method: str = Field(description="weekly: level, trend and season of the week. level: too few days for more.")


class Totals(Change):
    """Totals of one currency."""

    currency: str
    billed: Amount
    untagged: Amount = Field(description="Effective cost of the rows without any tag.")
    untagged_percent: float | None
    row_count: int
    month: Outlook | None = Field(description="The month of the last day that has data; null for times before it.")
    next_30_days: Outlook | None


class Point(Output):
    """A step of a trend."""

    day: date = Field(description="Its first day.")
    total: Amount
    by_provider: dict[str, Amount]


class Trend(Output):
    """The trend of one currency."""

    currency: str
    points: list[Point]


class Shares(Output):
    """What makes up the total of one currency, the largest first."""

    currency: str
    items: list[Share]


class Look(Output):
    """What was looked at."""

    period: Span | None = Field(description="null where there are no costs at all.")
    previous: Span | None
    as_of: date | None = Field(description="The last day that has data.")
    synthetic: bool = Field(description="Whether any of it was made up by the demo.")


class Overview(Look):
    """Totals, with their forecast."""

    totals: list[Totals]


class CostTrend(Look):
    """Spend step by step."""

    granularity: Granularity
    trends: list[Trend]


class Breakdown(Look):
    """What the total is made of."""

    shares: list[Shares]


class CurrencyPage(Totals):
    """All that a dashboard shows of one currency."""

    trend: list[Point]
    by_provider: list[Share]
    by_service: list[Share]
    by_account: list[Share]
    movers: list[Share] = Field(description="Services whose spend changed most, either way.")


class Dashboard(Look):
    """One page for all."""

    granularity: Granularity
    currencies: list[CurrencyPage]
    budgets: list[dict[str, Any]] = Field(description="Budgets in force with their state, the fullest first.")
    anomalies: AnomalyHighlights | None = Field(
        None, description="Those that need attention, the newest first; null for who may not see them."
    )
    savings: SavingHighlights | None = Field(
        None, description="Savings found and realised, and the largest that wait; null for who may not see them."
    )
