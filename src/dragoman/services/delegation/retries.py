"""When a failed attempt is followed by another."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a task is tried in one run, and how long it rests in between."""

    max_attempts: int = 3
    base_s: float = 1.0
    most_s: float = 60.0

    def rest_s(self, attempt: int) -> float:
        """Twice as long each time, up to a bound, and never the same for all: those that failed together part."""
        longest = min(self.base_s * 2 ** min(attempt - 1, 30), self.most_s)
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - to spread load, not to hide anything
