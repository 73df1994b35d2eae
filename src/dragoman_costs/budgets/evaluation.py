"""Holds what was spent, and what is to be expected, against a budget."""

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final

from dragoman_costs.budgets import models as m
from dragoman_costs.dashboard.figures import month_end, outlook
from dragoman_costs.forecast import LONGEST_HISTORY

_DAY: Final = timedelta(days=1)
_ZERO: Final = Decimal(0)
_QUARTER: Final = 3


def span_of(period: str, day: date) -> tuple[date, date]:
    """Return the first and the last day of the period that a day is in."""
    match m.Period(period):
        case m.Period.MONTH:
            return day.replace(day=1), month_end(day)
        case m.Period.QUARTER:
            first = (day.month - 1) // _QUARTER * _QUARTER + 1
            return day.replace(month=first, day=1), month_end(day.replace(month=first + _QUARTER - 1, day=1))
        case m.Period.YEAR:
            return day.replace(month=1, day=1), day.replace(month=12, day=31)


def known_since(period: str, day: date) -> date:
    """Return the first day whose spend matters: of the period, or of the past that a forecast looks at."""
    return min(span_of(period, day)[0], day - timedelta(days=LONGEST_HISTORY))


def evaluate(budget: Mapping[str, Any], spent: Iterable[Mapping[str, Any]], today: date) -> m.State:
    """Return the state of a budget, from what was spent by day and currency."""
    first, last = span_of(budget["period"], today)
    rows = list(spent)
    daily = {row["day"]: row[budget["measure"]] for row in rows if row["currency"] == budget["currency"]}
    actual = sum((amount for day, amount in daily.items() if first <= day <= last), _ZERO)
    # A day that is not over is known in part; a day that has no data yet may only be late.
    over = min(max(daily, default=today), today - _DAY)
    expected = outlook({day: amount for day, amount in daily.items() if day <= over}, first, last, over)
    total = max(expected.total, actual) if expected else None
    limit: Decimal = budget["amount"]
    worst = max(actual, total or actual)
    return m.State(
        period_start=first,
        period_end=last,
        status=_status(actual, total, limit),
        actual=actual,
        actual_percent=_percent(actual, limit),
        forecast=total,
        forecast_low=expected.low if expected else None,
        forecast_high=expected.high if expected else None,
        forecast_percent=_percent(total, limit) if total is not None else None,
        overrun=worst - limit if worst > limit else None,
        other_currencies=sorted({row["currency"] for row in rows if row["day"] >= first} - {budget["currency"]}),
    )


def reached(budget: Mapping[str, Any], state: m.State) -> list[tuple[m.AlertKind, int, Decimal]]:
    """Return the thresholds that are reached, each with what has reached it."""
    limit: Decimal = budget["amount"]
    found = [
        (m.AlertKind.ACTUAL, threshold, state.actual)
        for threshold in budget["thresholds"]
        if state.actual * 100 >= limit * threshold
    ]
    if state.forecast is not None:
        found += [
            (m.AlertKind.FORECAST, threshold, state.forecast)
            for threshold in budget["forecast_thresholds"]
            if state.forecast * 100 >= limit * threshold
        ]
    return found


def _status(actual: Decimal, total: Decimal | None, limit: Decimal) -> m.BudgetStatus:
    if actual >= limit:
        return m.BudgetStatus.EXCEEDED
    return m.BudgetStatus.AT_RISK if total is not None and total >= limit else m.BudgetStatus.OK


def _percent(amount: Decimal, limit: Decimal) -> float:
    return round(float(amount / limit * 100), 1)
