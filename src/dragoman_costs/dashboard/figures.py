"""Figures of a dashboard, made of sums: exact where they are sums, and estimates where they look ahead."""

import calendar
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any, Final

from dragoman_costs.dashboard import models as m
from dragoman_costs.forecast import LONGEST_HISTORY, forecast

Record = dict[str, Any]
_CENT: Final = Decimal("0.01")
_ZERO: Final = Decimal(0)
_MONTH_DAYS: Final = 30


def month_end(day: date) -> date:
    """Return the last day of its month."""
    return day.replace(day=calendar.monthrange(day.year, day.month)[1])


def percent(part: Decimal, whole: Decimal) -> float | None:
    """Return a part of a whole in percent, to one decimal; None of nothing."""
    return round(float(part / whole * 100), 1) if whole else None


def change(total: Decimal, previous: Decimal) -> dict[str, Any]:
    """Return the fields of `Change`."""
    return {
        "total": total,
        "previous": previous,
        "change": total - previous,
        "change_percent": percent(total - previous, abs(previous)),
    }


def add_up(rows: Iterable[Mapping[str, Any]], name: str) -> Decimal:
    """Return a sum of one column."""
    return sum((row[name] for row in rows), _ZERO)


def by_currency(rows: Iterable[Record]) -> dict[str, list[Record]]:
    """Return rows apart by currency."""
    ordered = sorted(rows, key=lambda row: row["currency"])
    return {currency: list(some) for currency, some in groupby(ordered, key=lambda row: row["currency"])}


def points(rows: Iterable[Record], granularity: m.Granularity, span: m.Span) -> list[m.Point]:
    """Return a trend with a point for every step of a span, whether anything was spent or not."""
    found: dict[date, dict[str, Decimal]] = {}
    day = _step_of(span.start_date, granularity)
    while day <= span.end_date:
        found[day] = {}
        day = _next_step(day, granularity)
    for row in rows:
        step = found[_step_of(row["day"], granularity)]
        step[row["provider"]] = step.get(row["provider"], _ZERO) + row["effective"]
    return [
        m.Point(day=day, total=sum(step.values(), _ZERO), by_provider=dict(sorted(step.items())))
        for day, step in sorted(found.items())
    ]


def _step_of(day: date, granularity: m.Granularity) -> date:
    match granularity:
        case m.Granularity.DAY:
            return day
        case m.Granularity.WEEK:
            return day - timedelta(days=day.weekday())
        case m.Granularity.MONTH:
            return day.replace(day=1)


def _next_step(day: date, granularity: m.Granularity) -> date:
    match granularity:
        case m.Granularity.DAY:
            return day + timedelta(days=1)
        case m.Granularity.WEEK:
            return day + timedelta(days=7)
        case m.Granularity.MONTH:
            return month_end(day) + timedelta(days=1)


def shares(rows: Iterable[Record], whole: Decimal) -> list[m.Share]:
    """Return what each row adds to the whole, the largest first."""
    found = [
        m.Share(
            name=row["name"],
            id=str(row["account_id"]) if "account_id" in row else None,
            provider=row.get("provider"),
            share_percent=percent(row["total"], whole),
            **change(row["total"], row["previous"]),
        )
        for row in rows
    ]
    return sorted(found, key=lambda one: (-one.total, one.name, one.provider or ""))


def movers(found: Sequence[m.Share], most: int) -> list[m.Share]:
    """Return what changed most, either way."""
    moved = [one for one in found if one.change]
    return sorted(moved, key=lambda one: (-abs(one.change), one.name, one.provider or ""))[:most]


def outlook(daily: Mapping[date, Decimal], first: date, last: date, over: date) -> m.Outlook | None:
    """Return what the days from `first` to `last` will add up to, when `over` is the last one that is complete.

    None where too little is known, and where all of the days are over.
    """
    if over >= last or not daily:
        return None
    begin = max(min(daily), over - timedelta(days=LONGEST_HISTORY - 1))
    history = [float(daily.get(begin + timedelta(days=step), _ZERO)) for step in range((over - begin).days + 1)]
    whole = forecast(history, (last - over).days)
    if whole is None:
        return None
    # Where the data ends before the span begins, the days between are expected too, but are no part of it.
    between = forecast(history, max((first - over).days - 1, 0))
    less = between.total if between else 0.0
    known = sum((amount for day, amount in daily.items() if first <= day <= over), _ZERO)
    return m.Outlook(
        start_date=first,
        end_date=last,
        known=known,
        total=(known + Decimal(whole.total - less)).quantize(_CENT),
        low=(known + Decimal(whole.low - less)).quantize(_CENT),
        high=(known + Decimal(whole.high - less)).quantize(_CENT),
        method=whole.method,
    )


def next_days(daily: Mapping[date, Decimal], over: date) -> m.Outlook | None:
    """Return what the next thirty days will add up to."""
    return outlook(daily, over + timedelta(days=1), over + timedelta(days=_MONTH_DAYS), over)
