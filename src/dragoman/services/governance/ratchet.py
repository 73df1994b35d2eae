"""The ratchet of drift: a project may have the violations of the best state that was accepted, and no others.

A state is accepted when it passes. So what is accepted only ever shrinks, and a check that fails changes nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from dragoman.services.governance.models import Breach
from dragoman.services.knowledge.constraints.models import Severity

# Violations that later checks may have: the fingerprint of each, with its file where it has one.
Accepted = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Ratchet:
    """What keeps a check from passing, and what is accepted after it: None where it does not pass."""

    regressions: list[str]
    accepted: dict[str, str | None] | None

    @property
    def passed(self) -> bool:
        """Whether nothing is worse than what was accepted."""
        return self.accepted is not None


def compare(before: Accepted | None, breaches: Sequence[Breach], checked: Collection[str], *, whole: bool) -> Ratchet:
    """Compare a check with what was accepted before; on a first check (None) everything but blocking violations is.

    Of a part of a project, violations stay accepted in the files that were not among those `checked`.
    """
    now = {one.fingerprint: one.location.file if one.location else None for one in breaches}
    if before is None:
        regressions = sorted({one.fingerprint for one in breaches if one.severity is Severity.BLOCK})
    else:
        regressions = sorted(now.keys() - before.keys())
    if regressions:
        return Ratchet(regressions, None)
    unseen = {} if whole or before is None else {name: file for name, file in before.items() if file not in checked}
    return Ratchet([], {**unseen, **now})
