"""How far something has moved away from what is demanded of it.

    score = weight of the demands that are not met / weight of the demands that apply

A demand that finds nothing to be held against says nothing, for or against; it is named, because a rule that never
applies is often a rule with a mistake in it. What is suppressed counts as met, is shown, and comes back when the
suppression ends.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from dragoman.services.governance.models import Suppression
from dragoman.services.governance.policies import Demand, key_of
from dragoman.services.knowledge.constraints.models import Severity, Violation

WEIGHTS: Final = {Severity.BLOCK: 1.0, Severity.WARN: 0.5, Severity.INFO: 0.1}


@dataclass(frozen=True, slots=True)
class Drift:
    """The figures, and what is behind them."""

    score: float
    applicable_weight: float
    failed_weight: float
    confidence: float
    violations: list[Violation]
    suppressed: list[tuple[Violation, Suppression]]
    idle: list[Demand]


def measure(
    demands: Sequence[Demand],
    applied: Iterable[int],
    violations: Sequence[Violation],
    suppressions: Sequence[Suppression],
) -> Drift:
    """The drift of what was checked: `applied` are the places in `demands` of those that had something to judge.

    The confidence is the share of the weight in force that had something to judge: a score over few of the rules is
    a score, but not one to rely on.
    """
    open_ones: list[Violation] = []
    suppressed: list[tuple[Violation, Suppression]] = []
    for violation in violations:
        by = next((one for one in suppressions if _covers(one, violation)), None)
        if by is None:
            open_ones.append(violation)
        else:
            suppressed.append((violation, by))
    places = frozenset(applied)
    judged = [demand for place, demand in enumerate(demands) if place in places]
    failed = {(violation.rule.item_id, key_of(violation.rule.constraint)) for violation in open_ones}
    applicable = sum(WEIGHTS[demand.severity] for demand in judged)
    failing = sum(WEIGHTS[demand.severity] for demand in judged if (demand.policy.id, demand.key) in failed)
    in_force = sum(WEIGHTS[demand.severity] for demand in demands)
    return Drift(
        score=round(failing / applicable, 4) if applicable else 0.0,
        applicable_weight=round(applicable, 4),
        failed_weight=round(failing, 4),
        confidence=round(applicable / in_force, 4) if in_force else 1.0,
        violations=open_ones,
        suppressed=suppressed,
        idle=[demand for place, demand in enumerate(demands) if place not in places],
    )


def _covers(suppression: Suppression, violation: Violation) -> bool:
    """Whether it speaks of this violation: of its policy, of its pattern and of its file, where these are given."""
    rule = violation.rule
    return (
        rule.item_id == suppression.policy_id
        and (suppression.pattern is None or rule.constraint.pattern == suppression.pattern)
        and (suppression.path is None or fnmatchcase(violation.place.file or "", suppression.path))
    )


def fingerprint(violation: Violation) -> str:
    """Which violation it is from one check to the next: the line is left out, since lines move."""
    rule = violation.rule
    told = (rule.item_id, *map(str, key_of(rule.constraint)), violation.place.file or "", violation.message)
    return short_hash(*told)


def short_hash(*told: str) -> str:
    """The same for the same texts."""
    return hashlib.sha256("\x1f".join(told).encode()).hexdigest()[:32]
