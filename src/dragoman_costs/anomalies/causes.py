"""Explains the excess of a day: contributions of regions, sub accounts and resources that add up to it exactly."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

_MOST: Final = 5
# The share of the excess from which a contribution has a line of its own.
_WORTH_TELLING: Final = Decimal("0.02")
_CENT: Final = Decimal("0.01")
OTHERS: Final = "(all others)"
UNNAMED: Final = "(none)"


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one region, sub account or resource adds to the excess."""

    name: str
    expected: Decimal
    actual: Decimal

    @property
    def excess(self) -> Decimal:
        """The part of the excess."""
        return self.actual - self.expected


def explain(
    expected: Decimal, actual: Decimal, now: Mapping[str, Decimal], before: Mapping[str, Decimal]
) -> list[Contribution]:
    """Return the largest contributions first, and what all others add, which may be nothing.

    `before` are the amounts of usual days. They are scaled so that they add up to what was expected; what has no past
    is expected to cost nothing.
    """
    past = sum(before.values(), Decimal(0))
    scale = expected / past if past > 0 else Decimal(0)
    found = [
        Contribution(name or UNNAMED, (before.get(name, Decimal(0)) * scale).quantize(_CENT), now.get(name, Decimal(0)))
        for name in sorted({*now, *before})
    ]
    sign = 1 if actual >= expected else -1
    found.sort(key=lambda one: one.excess * sign, reverse=True)
    least = abs(actual - expected) * _WORTH_TELLING
    shown = [one for one in found[:_MOST] if one.excess * sign > least]
    rest_expected = expected - sum((one.expected for one in shown), Decimal(0))
    rest_actual = actual - sum((one.actual for one in shown), Decimal(0))
    return [*shown, Contribution(OTHERS, rest_expected, rest_actual)]
