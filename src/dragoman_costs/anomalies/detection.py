"""Finds days on which a series is not as it was: medians, a season of the week, and a least impact in money.

The expected amount of a day is the median of the weeks before without their season, times the factor of its weekday,
carried on by their trend. Its scale is the median absolute deviation from that. An anomaly is one event, not a day: it
goes on while days deviate in the same direction, and ends as the new normal when they have done so for long.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from enum import StrEnum
from statistics import median
from typing import Final

_WEEK: Final = 7
# Makes the median absolute deviation comparable to a standard deviation.
_MAD_TO_SIGMA: Final = 1.4826


class Shape(StrEnum):
    """What an anomaly looks like."""

    SPIKE = "spike"
    DROP = "drop"
    STEP_UP = "step_up"
    STEP_DOWN = "step_down"
    NEW = "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """When a deviation is an anomaly.

    It is at least `least_score` times the usual deviation, `least_share` of what was expected, and `least_amount` in
    the currency of the series. The past is `past_days`; the first `quiet_days` of a series are only learnt from. What
    deviates for `step_days` in a row is a step, and from then on normal.
    """

    least_score: float = 5.0
    least_share: float = 0.15
    least_amount: float = 10.0
    past_days: int = 42
    quiet_days: int = 21
    step_days: int = 5
    floor_share: float = 0.02


@dataclass(frozen=True, slots=True)
class Event:
    """An anomaly of a series: its first day with what was expected then, its last day, and the excess of all days."""

    day: date
    last_day: date
    expected: float
    actual: float
    score: float
    total_excess: float
    shape: Shape

    @property
    def excess(self) -> float:
        """What the first day has too much, or too little."""
        return self.actual - self.expected


DEFAULT: Final = Sensitivity()


@dataclass(slots=True)
class _Normal:
    """A series as it is when nothing is wrong: days of anomalies are replaced by what was expected of them."""

    amounts: list[float]
    weekday: int
    # Where the level was last new: earlier days say only what the week looks like.
    since: int = 0

    def expect(self, s: Sensitivity) -> tuple[float, float]:
        """Return what the next day should be, and how far off it usually is."""
        end = len(self.amounts)
        begin = max(0, end - s.past_days)
        factors = self._season(begin, end)
        level_begin = max(begin, self.since, end - 2 * _WEEK)
        past = [self._plain(i, factors) for i in range(max(begin, self.since), end)]
        recent = past[level_begin - max(begin, self.since) :]
        level = median(recent)
        slope = _trend(past)
        expected = max(0.0, level + slope * (len(recent) + 1) / 2) * factors[(self.weekday + end) % _WEEK]
        center = (len(past) - 1) / 2
        middle = median(past)
        off = [abs(value - (middle + slope * (i - center))) for i, value in enumerate(past)]
        scale = _MAD_TO_SIGMA * median(off) * factors[(self.weekday + end) % _WEEK]
        return expected, max(scale, s.floor_share * expected, 0.01)

    def _plain(self, index: int, factors: Sequence[float]) -> float:
        return self.amounts[index] / factors[(self.weekday + index) % _WEEK]

    def _season(self, begin: int, end: int) -> list[float]:
        """Return the factor of each weekday: the median of its share in the week around it."""
        shares: list[list[float]] = [[] for _ in range(_WEEK)]
        for i in range(begin, end):
            low = min(max(begin, i - 3), max(begin, end - _WEEK))
            week = self.amounts[low : low + _WEEK]
            mean = sum(week) / len(week)
            if len(week) == _WEEK and mean > 0:
                shares[(self.weekday + i) % _WEEK].append(self.amounts[i] / mean)
        return [max(median(found), 0.02) if len(found) > 1 else 1.0 for found in shares]


def _trend(values: Sequence[float]) -> float:
    """Return the median slope between values a week or more apart; 0 when there are too few."""
    half = len(values) // 2
    if half < _WEEK:
        return 0.0
    return median((values[i + half] - values[i]) / half for i in range(len(values) - half))


def detect(first_day: date, amounts: Sequence[float], s: Sensitivity = DEFAULT, *, begins: bool = False) -> list[Event]:
    """Return the anomalies of a series whose days follow each other without gaps, oldest first.

    With `begins`, the series itself is new on its first day: its account has a past and it has none.
    """
    found: list[Event] = []
    if begins:
        found += _beginning(first_day, amounts, s)
    normal = _Normal([], first_day.weekday())
    running: Event | None = None
    deviating: list[float] = []
    for index, actual in enumerate(amounts):
        day = first_day + timedelta(days=index)
        if index < s.quiet_days:
            normal.amounts.append(actual)
            continue
        expected, scale = normal.expect(s)
        excess = actual - expected
        score = excess / scale
        least = max(s.least_amount, s.least_share * expected)
        # An event goes on a little below where it would begin: it would be told of again otherwise.
        ease = 0.6 if running is not None and (excess > 0) == (running.excess > 0) else 1.0
        if abs(score) < s.least_score * ease or abs(excess) < least * ease:
            normal.amounts.append(actual)
            running, deviating = None, []
            continue
        if running is not None and (excess > 0) == (running.excess > 0):
            running = replace(running, last_day=day, total_excess=running.total_excess + excess)
            deviating.append(actual)
            normal.amounts.append(expected)
            found[-1] = running
            if len(deviating) >= s.step_days:
                found[-1] = replace(running, shape=Shape.STEP_UP if excess > 0 else Shape.STEP_DOWN)
                _settle(normal, deviating)
                running, deviating = None, []
            continue
        shape = Shape.SPIKE if excess > 0 else Shape.DROP
        running = Event(day, day, expected, actual, min(max(score, -999.0), 999.0), excess, shape)
        found.append(running)
        deviating = [actual]
        normal.amounts.append(expected)
    return found


def _beginning(first_day: date, amounts: Sequence[float], s: Sensitivity) -> list[Event]:
    """Return the event of a series that did not exist before, if it has cost enough in its first week."""
    for index, actual in enumerate(amounts[:_WEEK]):
        if actual >= s.least_amount:
            day = first_day + timedelta(days=index)
            last = min(len(amounts), _WEEK) - 1
            total = sum(amounts[index : last + 1])
            return [Event(day, first_day + timedelta(days=last), 0.0, actual, 999.0, total, Shape.NEW)]
    return []


def _settle(normal: _Normal, deviating: Sequence[float]) -> None:
    """Make the level of the last days the normal one, and raise or lower the past to it, so that its season is kept."""
    replaced = normal.amounts[-len(deviating) :]
    before = sum(replaced)
    ratio = sum(deviating) / before if before > 0 else 1.0
    end = len(normal.amounts) - len(deviating)
    normal.amounts[:end] = [value * ratio for value in normal.amounts[:end]]
    normal.amounts[end:] = deviating
