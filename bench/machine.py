"""The machine at hand, and how steady it is: a figure from a noisy one says less."""

import os
import platform
import time
from dataclasses import dataclass, field
from typing import Any

_SPIN_S = 0.03
_REPEATS = 5


@dataclass(slots=True)
class Machine:
    """Does the same piece of work before, between and after the rows; on a quiet machine it always takes as long."""

    loops: int = 0
    samples_ms: list[tuple[str, list[float]]] = field(default_factory=list[tuple[str, list[float]]])

    def sample(self, moment: str) -> None:
        """Do the piece of work a few times."""
        if not self.loops:
            self.loops = _calibrate()
        self.samples_ms.append((moment, [round(_spin(self.loops) * 1000, 2) for _ in range(_REPEATS)]))

    @property
    def spread(self) -> float:
        """The slowest typical sample by the fastest of all: 1.0 is a quiet machine."""
        every = [value for _, values in self.samples_ms for value in values]
        typical = [sorted(values)[len(values) // 2] for _, values in self.samples_ms]
        return max(typical) / min(every) if every else 1.0

    def describe(self) -> dict[str, Any]:
        """For the record."""
        return {
            "cores": os.cpu_count(),
            "usable_cores": len(os.sched_getaffinity(0)),
            "load_average": [round(value, 2) for value in os.getloadavg()],
            "python": platform.python_version(),
            "system": platform.platform(),
            "spin_spread": round(self.spread, 3),
            "spin_ms": dict(self.samples_ms),
        }

    def line(self) -> str:
        """For people."""
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        return f"{os.cpu_count()} cores, load average {load}, the same spin took up to {self.spread:.2f}x as long"


def _calibrate() -> int:
    loops = 10_000
    while _spin(loops) < _SPIN_S:
        loops *= 2
    return loops


def _spin(loops: int) -> float:
    started = time.perf_counter()
    value = 1
    for _ in range(loops):
        value = value * 1103515245 + 12345 & 0x7FFFFFFF
    return time.perf_counter() - started
