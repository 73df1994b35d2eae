"""How well anomalies are found: made-up spend with known surprises, and what detection makes of it.

python -m dragoman_costs.anomalies.backtest --seeds 20
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final

from dragoman_costs.anomalies.detection import DEFAULT, Event, Sensitivity, Shape, detect
from dragoman_costs.synthetic.building import build_estate
from dragoman_costs.synthetic.estate import Estate, Surprise
from dragoman_costs.synthetic.spend import list_charges

UNTIL: Final = date(2026, 11, 18)
_LASTING: Final = frozenset({"step", "new_service"})
_SIZES: Final = (0.15, 0.25, 0.4, 0.6, 1.0, 2.0)
Series = tuple[str, str]


@dataclass(slots=True)
class Score:
    """How many surprises were found, and how many events were none."""

    found: int = 0
    missed: int = 0
    false: int = 0
    by_kind: Counter[tuple[str, bool]] = field(default_factory=Counter[tuple[str, bool]])
    by_size: Counter[tuple[float, bool]] = field(default_factory=Counter[tuple[float, bool]])

    @property
    def precision(self) -> float:
        """The share of events that are surprises."""
        return self.found / max(self.found + self.false, 1)

    @property
    def recall(self) -> float:
        """The share of surprises that were found."""
        return self.found / max(self.found + self.missed, 1)


def backtest(seeds: Iterable[int], *, days: int = 180, sensitivity: Sensitivity = DEFAULT) -> Score:
    """Return how well the surprises of these seeds are found.

    An event counts as found when it begins while the surprise lasts, or on the day after; one surprise may be several
    events, which count once, and as no false ones.
    """
    score = Score()
    for seed in seeds:
        estate = build_estate(seed, until=UNTIL, days=days)
        _add(score, estate, _events(estate, sensitivity))
    return score


def _events(estate: Estate, sensitivity: Sensitivity) -> list[tuple[Series, Event]]:
    amounts: dict[Series, list[float]] = defaultdict(lambda: [0.0] * estate.days)
    begins: dict[Series, int] = {}
    for account in estate.accounts:
        for charge in list_charges(estate, account):
            if charge["ChargeCategory"] == "Usage":
                series = (account.identifier, charge["ServiceName"])
                index = (date.fromisoformat(charge["ChargePeriodStart"][:10]) - estate.first_day).days
                amounts[series][index] += float(charge["EffectiveCost"])
                begins.setdefault(series, index)
    last = estate.first_day + timedelta(days=estate.days - 1)
    found: list[tuple[Series, Event]] = []
    for series, values in amounts.items():
        first = begins[series]
        day = estate.first_day + timedelta(days=first)
        events = detect(day, values[first:], sensitivity, begins=first >= sensitivity.quiet_days)
        found += [(series, event) for event in events if event.day != last or event.shape is not Shape.DROP]
    return found


def _add(score: Score, estate: Estate, events: list[tuple[Series, Event]]) -> None:
    hit: set[int] = set()
    for series, event in events:
        matched = [index for index, one in enumerate(estate.surprises) if _explains(one, series, event)]
        hit.update(matched)
        score.false += not matched
    for index, one in enumerate(estate.surprises):
        score.by_kind[one.kind, index in hit] += 1
        score.by_size[min(_SIZES, key=lambda size: abs(size - abs(one.share))), index in hit] += 1
    score.found += len(hit)
    score.missed += len(estate.surprises) - len(hit)


def _explains(surprise: Surprise, series: Series, event: Event) -> bool:
    last = surprise.first if surprise.kind in _LASTING else surprise.last
    within = surprise.first <= event.day <= last + timedelta(days=1)
    return within and (surprise.identifier, surprise.service) == series


def main() -> None:
    """Print the table of docs/costs-insight.md."""
    parser = argparse.ArgumentParser(description="Back-test the detection of anomalies on made-up spend.")
    parser.add_argument("--seeds", type=int, default=20, help="how many estates")
    parser.add_argument("--first", type=int, default=100, help="the first seed; 1 to 6 were used for the defaults")
    given = parser.parse_args()
    score = backtest(range(given.first, given.first + given.seeds))
    total = score.found + score.missed
    print(f"precision {score.precision:.3f}   recall {score.recall:.3f}   ({total} surprises, {score.false} false)")  # noqa: T201
    for title, counts in (("kind", score.by_kind), ("size", score.by_size)):
        for name in sorted({key for key, _ in counts}, key=str):
            found, missed = counts[name, True], counts[name, False]  # pyright: ignore[reportArgumentType]
            label = name if isinstance(name, str) else f"{name:.0%}"
            print(f"  {title} {label:<12} {found:>4} of {found + missed}")  # noqa: T201


if __name__ == "__main__":
    main()
