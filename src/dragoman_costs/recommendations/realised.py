"""Whether a saving came: what bills say since the execution, beside what they said before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

from dragoman_costs.recommendations.evidence import MONTH_DAYS
from dragoman_costs.recommendations.findings import Kind

DAYS_NEEDED: Final = 7
_BEFORE_DAYS: Final = 28
_CENT: Final = Decimal("0.01")
_NOTHING: Final = Decimal(0)
BY_COST: Final = (
    "cost a day: the mean of each weekday in the four weeks before the execution, minus what the same weekdays cost "
    "since; days without rows count as nothing where the account has bills"
)
BY_PRICE: Final = (
    "comparable use: what was used since the execution, at the effective price of the four weeks before, minus what it "
    "cost"
)
BY_COVER: Final = (
    "commitment: list price minus effective cost of what commitments covered since the execution, minus the same of a "
    "day in the four weeks before"
)


@dataclass(frozen=True, slots=True)
class Day:
    """What something cost on a day, how much of it was used, and its list price."""

    amount: Decimal
    quantity: Decimal
    listed: Decimal


@dataclass(frozen=True, slots=True)
class Realised:
    """What was saved on how many days; `a_day` is None when there are too few."""

    days: int
    method: str
    a_day: Decimal | None = None
    to_date: Decimal | None = None
    before: Decimal | None = None
    after: Decimal | None = None

    @property
    def a_month(self) -> Decimal | None:
        """The saving of a month at this rate."""
        return (self.a_day * MONTH_DAYS).quantize(_CENT) if self.a_day is not None else None


def measure(kind: Kind, executed: date, days: Mapping[date, Day], billed: Sequence[date]) -> Realised | None:
    """Return what was saved since the day of the execution, which itself belongs to neither side.

    `billed` are the days for which the account has bills. Returns None where there is nothing to compare with: no bill
    of the four weeks before has it.
    """
    first = executed - timedelta(days=_BEFORE_DAYS)
    before = [day for day in billed if first <= day < executed]
    after = [day for day in billed if day > executed]
    method = {Kind.RESERVE: BY_COVER, Kind.RIGHTSIZE: BY_PRICE, Kind.MIGRATE: BY_PRICE}.get(kind, BY_COST)
    if not before or (kind is not Kind.RESERVE and not any(day in days for day in before)):
        return None
    if len(after) < DAYS_NEEDED:
        return Realised(len(after), method)
    cost_before, cost_after = _mean(days, before), _mean(days, after)
    if method is BY_COVER:
        saved = _covered(days, after) - _covered(days, before) / len(before) * len(after)
    elif method is BY_PRICE and (used := sum((days[day].quantity for day in before if day in days), _NOTHING)) > 0:
        price = sum((days[day].amount for day in before if day in days), _NOTHING) / used
        now = [days[day] for day in after if day in days]
        saved = sum((day.quantity for day in now), _NOTHING) * price - sum((day.amount for day in now), _NOTHING)
        # What is not used any more was replaced by something else, of which nothing is known here.
        if not now:
            method, saved = BY_COST, cost_before * len(after)
    else:
        usual = _by_weekday(days, before, cost_before)
        saved = sum((usual[day.weekday()] - _amount(days, day) for day in after), _NOTHING)
    return Realised(
        len(after), method, saved / len(after), saved.quantize(_CENT), cost_before.quantize(_CENT),
        cost_after.quantize(_CENT),
    )  # fmt: skip


def _amount(days: Mapping[date, Day], day: date) -> Decimal:
    return days[day].amount if day in days else _NOTHING


def _mean(days: Mapping[date, Day], of: Sequence[date]) -> Decimal:
    return sum((_amount(days, day) for day in of), _NOTHING) / len(of)


def _covered(days: Mapping[date, Day], of: Sequence[date]) -> Decimal:
    return sum((days[day].listed - days[day].amount for day in of if day in days), _NOTHING)


def _by_weekday(days: Mapping[date, Day], of: Sequence[date], usual: Decimal) -> list[Decimal]:
    """Return the mean of each weekday; that of all days for a weekday without any."""
    means: list[Decimal] = []
    for weekday in range(7):
        same = [day for day in of if day.weekday() == weekday]
        means.append(_mean(days, same) if same else usual)
    return means
