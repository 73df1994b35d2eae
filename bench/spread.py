from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """How a set of durations lies, in milliseconds."""

    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Spread":
        """Of durations in seconds; all zero when there are none."""
        ordered = sorted(seconds) or [0.0]

        def at(share: float) -> float:
            return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000, 4)

        return cls(at(0.50), at(0.95), at(0.99), at(1.0))
