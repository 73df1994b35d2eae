"""A rate: how much of one currency an amount of another is, on a day or in a month."""

from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Final, Self
from uuid import UUID

from pydantic import Field, StringConstraints, model_validator

from dragoman.operations import Input, ListInput, Output
from dragoman_costs.money import Amount

Code = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]
Period = Annotated[
    str,
    StringConstraints(pattern=r"^(19[9]\d|20\d\d|21\d\d)-(0[1-9]|1[0-2])(-\d\d)?$"),
    Field(description="A month such as 2026-10, or a day such as 2026-10-31, which wins over its month."),
]
_SMALLEST, _LARGEST = Decimal("1e-12"), Decimal("1e12")


class NewRate(Input):
    """A rate: an amount in `from_currency`, times `rate`, is one in `to_currency`."""

    from_currency: Code = Field(description="Three letters, such as USD.", examples=["USD"])
    to_currency: Code = Field(description="Three letters, such as EUR.", examples=["EUR"])
    period: Period = Field(examples=["2026-10"])
    rate: Amount = Field(description='A decimal string such as "0.92".', examples=["0.92"])

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.from_currency == self.to_currency:
            raise ValueError("from_currency and to_currency must differ")
        if not (self.rate.is_finite() and _SMALLEST <= self.rate <= _LARGEST):
            raise ValueError("rate must be between 0.000000000001 and 1000000000000")
        self.first_day()
        return self

    def first_day(self) -> date:
        """Return the day, or the first day of the month.

        Raises:
            ValueError: there is no such day.
        """
        try:
            return date.fromisoformat(self.period if len(self.period) > 7 else f"{self.period}-01")
        except ValueError:
            raise ValueError(f"period: there is no day {self.period}") from None

    @property
    def grain(self) -> str:
        """Return how long it is good for: a day or a month."""
        return "day" if len(self.period) > 7 else "month"


class SetRates(Input):
    """Rates to set; one that is there for the same currencies and period is replaced."""

    rates: list[NewRate] = Field(min_length=1, max_length=1_000, description="The rates; all are set, or none.")


class ListRates(ListInput):
    """Some rates, the newest first."""

    from_currency: Code | None = Field(None, description="Only those from this currency.")
    to_currency: Code | None = Field(None, description="Only those to this currency.")


class RateRef(Input):
    """A rate of the tenant."""

    rate_id: UUID = Field(description="The rate's id.")


class Rate(Output):
    """A rate that a tenant has set."""

    id: UUID
    from_currency: str
    to_currency: str
    period: str = Field(description="A month, or a day.", examples=["2026-10"])
    rate: Amount
    set_by: str
    set_at: datetime


_EXAMPLE: Final = {
    "id": "01890a5d-ac96-774b-bcce-b302099a8057", "from_currency": "USD", "to_currency": "EUR", "period": "2026-10",
    "rate": "0.92", "set_by": "ada@example.com", "set_at": "2026-11-01T09:30:00Z",
}  # fmt: skip


class RatesSet(Output):
    """What was set."""

    rates: list[Rate] = Field(examples=[[_EXAMPLE]])


class RemovedRate(Output):
    """A rate that is no longer there."""

    id: UUID
