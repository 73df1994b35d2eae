"""Holds rules against a subject. The table of operators and targets is in docs/knowledge.md.

A rule finds places. Where it forbids, each place is a violation; where it demands, the lack of one is: in every file
that it applies to (`must_use`, `must_match`), or in all of them together (`must_exist`).
"""

from collections.abc import Callable, Sequence
from itertools import islice

from dragoman.services.knowledge.constraints.documents import PathRefused, read_path
from dragoman.services.knowledge.constraints.effort import Effort
from dragoman.services.knowledge.constraints.models import (
    Constraint,
    Place,
    Report,
    Rule,
    Subject,
    Target,
    Violation,
)
from dragoman.services.knowledge.constraints.patterns import PatternRefused, name_glob, path_glob, regex
from dragoman.services.knowledge.constraints.reading import Reading
from dragoman.services.knowledge.constraints.semver import RangeRefused
from dragoman.services.knowledge.constraints.targets import demand_of
from dragoman.services.knowledge.constraints.versions import check_range

# What one rule may say about one subject: the hundred-first place tells nobody anything new.
_MOST_PLACES = 100


def complain(constraint: Constraint) -> tuple[str, str] | None:
    """The field that makes the constraint unusable and why, or None."""
    try:
        for glob in constraint.applies_to:
            path_glob(glob.removeprefix("!"))
    except PatternRefused as refused:
        return "applies_to", str(refused)
    try:
        if constraint.path is not None:
            read_path(constraint.path)
    except PathRefused as refused:
        return "path", str(refused)
    try:
        if constraint.version is not None:
            check_range(constraint.version)
    except RangeRefused as refused:
        return "version", str(refused)
    try:
        _check_pattern(constraint)
    except (PatternRefused, PathRefused) as refused:
        return "pattern", str(refused)
    return None


def check(rules: Sequence[Rule], subject: Subject, effort: Effort | None = None) -> Report:
    """Return every violation, in the order of the rules and of the files; rules must be free of complaints.

    Raises:
        TooMuchToCheck: it has taken too long; nothing is known of the rest.
    """
    effort = effort or Effort()
    reading = Reading(subject, effort)
    violations: list[Violation] = []
    unmet: list[Violation] = []
    applied: set[int] = set()
    for place, rule in enumerate(rules):
        effort.spend()
        demand = demand_of(rule.constraint, reading)
        if demand.applicable:
            applied.add(place)
        violations += [_violation(rule, found) for found in islice(demand.broken, _MOST_PLACES)]
        if demand.missing:
            absent = rule.constraint.pattern if rule.constraint.target is Target.FILE else None
            unmet.append(_violation(rule, Place(absent)))
    return Report(violations, unmet, frozenset(applied))


def _violation(rule: Rule, place: Place) -> Violation:
    return Violation(rule, rule.constraint.message or rule.constraint.wording, place)


def _check_pattern(constraint: Constraint) -> None:
    compiles: Callable[[str], object]
    if constraint.operator.matches or constraint.target is Target.CODE:
        compiles = regex
    elif constraint.target is Target.FILE:
        compiles = path_glob
    elif constraint.target is Target.CONFIG and constraint.path is None:
        compiles = read_path
    elif constraint.target is Target.CONFIG:
        compiles = regex
    else:
        compiles = name_glob
    compiles(constraint.pattern)
