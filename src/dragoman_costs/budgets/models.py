"""Budgets, their state, and their alerts."""

from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Self
from uuid import UUID

from pydantic import Field, StringConstraints, field_validator, model_validator

from dragoman.operations import Input, ListInput, Output
from dragoman.text import Name
from dragoman_costs.money import Amount

_MOST: Decimal = Decimal(10) ** 18
Text = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Currency = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]
Thresholds = Annotated[list[Annotated[int, Field(ge=1, le=1_000)]], Field(max_length=10)]


class Period(StrEnum):
    """The length of time that a budget is for; each begins on the first day of one of the calendar's."""

    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


class Measure(StrEnum):
    """What is held against a budget."""

    EFFECTIVE = "effective"
    BILLED = "billed"


class BudgetStatus(StrEnum):
    """`at_risk`: the forecast is beyond the budget. `exceeded`: the spend is."""

    OK = "ok"
    AT_RISK = "at_risk"
    EXCEEDED = "exceeded"


class AlertKind(StrEnum):
    """What has reached the threshold: the spend, or its forecast."""

    ACTUAL = "actual"
    FORECAST = "forecast"


class Reach(Input):
    """What a budget covers: all of the tenant's costs, or what has all that is named here."""

    provider: Text | None = Field(None, description="Only this provider.")
    account_id: UUID | None = Field(None, description="Only this cloud account.")
    service: Text | None = Field(None, description="Only this service.")
    tag_key: Text | None = Field(None, description="Only what has this tag.")
    tag_value: Annotated[str, StringConstraints(max_length=500)] | None = Field(
        None, description="Only what has this value of the tag `tag_key`."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.tag_value is not None and self.tag_key is None:
            raise ValueError("tag_value needs tag_key")
        return self


def _positive(amount: Decimal | None) -> Decimal | None:
    if amount is not None and not 0 < amount < _MOST:
        raise ValueError("must be more than 0, and less than 10 to the power of 18")
    return amount


def _ascending(thresholds: list[int] | None) -> list[int] | None:
    return sorted(set(thresholds)) if thresholds is not None else None


class CreateBudget(Input):
    """A budget. Charges in other currencies are not counted; its state names them."""

    name: Name = Field(description="What it is called.", examples=["Production"])
    scope: Reach | None = Field(None, description="What it covers; all costs where nothing is named.")
    amount: Amount = Field(description='What may be spent, as a decimal string such as "1000".', examples=["1000"])
    currency: Currency = Field(description="Three letters, such as USD.", examples=["USD"])
    period: Period = Field(Period.MONTH, description="month, quarter or year.")
    measure: Measure = Field(Measure.EFFECTIVE, description="effective, or billed for invoices.")
    thresholds: Thresholds = Field(
        default_factory=lambda: [50, 80, 100], description="Percent of the budget; an alert when spend reaches each."
    )
    forecast_thresholds: Thresholds = Field(
        default_factory=lambda: [100], description="Percent of the budget; an alert when the forecast reaches each."
    )

    _amount = field_validator("amount")(_positive)
    _order = field_validator("thresholds", "forecast_thresholds")(_ascending)


class BudgetRef(Input):
    """A budget of the tenant."""

    budget_id: UUID = Field(description="The budget's id.")


class UpdateBudget(BudgetRef):
    """What to change; what is left out stays."""

    name: Name | None = Field(None, description="A new name.")
    scope: Reach | None = Field(None, description="What it covers from now on, as a whole.")
    amount: Amount | None = Field(None, description="What may be spent.", examples=["1200"])
    currency: Currency | None = Field(None, description="Three letters.")
    period: Period | None = Field(None, description="month, quarter or year.")
    measure: Measure | None = Field(None, description="effective or billed.")
    thresholds: Thresholds | None = Field(None, description="Percent of the budget, for spend.")
    forecast_thresholds: Thresholds | None = Field(None, description="Percent of the budget, for the forecast.")
    expected_version: int | None = Field(
        None, ge=1, le=2**31 - 1, description="Refuse when the budget has moved on from this version."
    )

    _amount = field_validator("amount")(_positive)
    _order = field_validator("thresholds", "forecast_thresholds")(_ascending)


class State(Output):
    """How far a budget is used up in the present period, and how far it will be."""

    period_start: date
    period_end: date
    status: BudgetStatus
    actual: Amount
    actual_percent: float
    forecast: Amount | None = Field(description="The whole period, as expected; null while too little is known.")
    forecast_low: Amount | None = Field(description="In one of ten cases it will be less.")
    forecast_high: Amount | None = Field(description="In one of ten cases it will be more.")
    forecast_percent: float | None
    overrun: Amount | None = Field(description="What is spent, or expected, beyond the budget.")
    other_currencies: list[str] = Field(description="Currencies of charges in its scope that are not counted.")


class Scope(Output):
    """What a budget covers."""

    provider: str | None
    account_id: UUID | None
    service: str | None
    tag_key: str | None
    tag_value: str | None


class Budget(Output):
    """A budget with its state."""

    id: UUID
    name: str
    scope: Scope
    amount: Amount
    currency: str
    period: Period
    measure: Measure
    thresholds: list[int]
    forecast_thresholds: list[int]
    state: State
    evaluated_at: datetime
    version: int
    created_by: str
    created_at: datetime
    updated_at: datetime


class RemovedBudget(Output):
    """A budget that is no longer there."""

    id: UUID


class ListAlerts(ListInput):
    """Some alerts, the newest first."""

    budget_id: UUID | None = Field(None, description="Only those of this budget.")
    open: bool | None = Field(None, description="Only those that nobody has acknowledged, or only the others.")


class AlertRef(Input):
    """An alert of the tenant."""

    alert_id: UUID = Field(description="The alert's id.")


class Alert(Output):
    """A threshold that was reached; there is one for each budget, period, kind and threshold."""

    id: UUID
    budget_id: UUID
    budget_name: str
    period_start: date
    period_end: date
    kind: AlertKind
    threshold: int = Field(description="Percent of the budget.")
    budgeted: Amount
    reached: Amount = Field(description="The spend, or its forecast, when the alert was raised.")
    currency: str
    raised_at: datetime
    acknowledged_at: datetime | None
    acknowledged_by: str | None
