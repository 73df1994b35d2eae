"""What a daily series is likely to add up to: a level, a damped trend and a weekly season, with an interval of 80 %.

Robust throughout: the season is made of medians, the trend is Theil and Sen's, the spread is the median absolute
deviation; a day that is far off moves none of them. The interval knows of noise that lasts for days, and of what a
short history leaves open. docs/costs.md has the method in words, and how it does on series with a known truth.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import median
from typing import Final

_WEEK: Final = 7
# Eight weeks: what was before says little about the next ones.
LONGEST_HISTORY: Final = 56
_SHORTEST_SEASON: Final = 3 * _WEEK
_SHORTEST: Final = 3
_RECENT: Final = 3 * _WEEK
# Three quarters of a trend are left after a month.
_DAMPING: Final = 0.99
# The tenth and the ninetieth percentile.
_Z: Final = 1.2816
_MAD: Final = 1.4826
_MOST_LASTING: Final = 0.6


@dataclass(frozen=True, slots=True)
class Forecast:
    """The sum of some days to come; in four of five cases it lies between `low` and `high`."""

    total: float
    low: float
    high: float
    method: str


def forecast(history: Sequence[float], days: int) -> Forecast | None:
    """Return what the next days add up to; None where fewer than three days are known.

    `history` ends the day before, and has a value for every day.
    """
    known = list(history[-LONGEST_HISTORY:])
    if len(known) < _SHORTEST:
        return None
    if days <= 0:
        return Forecast(0.0, 0.0, 0.0, "none")
    seasonal = len(known) >= _SHORTEST_SEASON
    season = _season(known) if seasonal else [0.0] * _WEEK
    level = [value - season[place % _WEEK] for place, value in enumerate(known)]
    slope = _slope(level) if seasonal else 0.0
    last = len(level) - 1
    straight = [value + slope * (last - place) for place, value in enumerate(level)]
    spread = _spread(straight, seasonal=seasonal)
    slope *= _trusted(slope, spread, len(level)) if seasonal else 0.0
    straight = [value + slope * (last - place) for place, value in enumerate(level)]
    # Where the line is now, by the last three weeks: a step is followed within two.
    end = _middle(straight[-_RECENT:])
    steps = [_damped(slope, ahead) for ahead in range(1, days + 1)]
    total = sum(end + step + season[(last + ahead) % _WEEK] for ahead, step in enumerate(steps, 1))
    apart = _Z * spread * _uncertainty(straight, days, seasonal=seasonal)
    low, high = total - apart, total + apart
    if min(known) >= 0:
        total, low = max(total, 0.0), max(low, 0.0)
    return Forecast(total, low, max(high, total), "weekly" if seasonal else "level")


def _season(values: Sequence[float]) -> list[float]:
    """Return how far each day of the week is from its week, by the place in the series."""
    half = _WEEK // 2
    apart: list[list[float]] = [[] for _ in range(_WEEK)]
    for place in range(half, len(values) - half):
        apart[place % _WEEK].append(values[place] - sum(values[place - half : place + half + 1]) / _WEEK)
    season = [median(one) for one in apart]
    mean = sum(season) / _WEEK
    return [one - mean for one in season]


def _slope(values: Sequence[float]) -> float:
    """Return the median of all slopes between two days that are at least a week apart."""
    pairs = combinations(range(len(values)), 2)
    slopes = [(values[two] - values[one]) / (two - one) for one, two in pairs if two - one >= _WEEK]
    return median(slopes)


def _damped(slope: float, ahead: int) -> float:
    return slope * _DAMPING * (1 - _DAMPING**ahead) / (1 - _DAMPING)


def _spread(straight: Sequence[float], *, seasonal: bool) -> float:
    """Return the standard deviation of a day around its line, season and trend taken out."""
    centre = median(straight)
    apart = [abs(value - centre) for value in straight]
    sigma = _MAD * median(apart)
    if sigma == 0:
        # More than half of the days are alike; the others still deviate.
        sigma = 0.5 * math.sqrt(sum(value**2 for value in apart) / len(apart))
    # What was fitted to the days takes away from how far they seem to be from it.
    fitted = _WEEK + 2 if seasonal else 1
    return sigma * math.sqrt(len(straight) / (len(straight) - fitted))


def _trusted(slope: float, spread: float, count: int) -> float:
    """Return the part of a trend that is more than chance."""
    if slope == 0:
        return 0.0
    return max(0.0, 1 - (_slope_error(spread, count) / slope) ** 2)


def _slope_error(spread: float, count: int) -> float:
    return spread * math.sqrt(2 * 12 / (count * (count**2 - 1)))


def _middle(values: Sequence[float]) -> float:
    """Return the mean of values, the far ones drawn in."""
    centre = median(values)
    reach = 2 * _MAD * median(abs(value - centre) for value in values)
    return sum(min(max(value, centre - reach), centre + reach) for value in values) / len(values)


def _uncertainty(straight: Sequence[float], days: int, *, seasonal: bool) -> float:
    """Return the standard deviation of the sum of the next days, as a multiple of that of one day."""
    count, recent = len(straight), min(len(straight), _RECENT)
    noise, level, trend, season = float(days), 1.1 * days**2 / recent, 0.0, 0.0
    if seasonal:
        ahead = sum(_damped(1.0, step) for step in range(1, days + 1)) + days * (recent - 1) / 2
        trend = (_slope_error(1.0, count) * ahead) ** 2
        season = 1.57 * _WEEK / count * (days % _WEEK)
    lasting = _lasting(straight)
    return math.sqrt((noise + level) * (1 + lasting) / (1 - lasting) + trend + season)


def _lasting(values: Sequence[float]) -> float:
    """Return how much of the noise of a day is there on the next one, as far as it is positive."""
    centre = median(values)
    apart = [value - centre for value in values]
    whole = sum(value**2 for value in apart)
    if whole == 0:
        return 0.0
    return min(max(sum(one * two for one, two in pairwise(apart)) / whole, 0.0), _MOST_LASTING)
