"""What skills and workers do outside every database: lines in a file, with the time of a clock that all share."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.harness import wait_for

OUTSIDE: Final = "CHAOS_OUTSIDE"
# The lines that show that a run goes on.
ACTIVE: Final = ("begin", "tick", "step", "effect", "end")


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that one process did."""

    at: float
    node: str
    pid: int
    name: str
    what: str
    run: str
    key: str | None


class Journal:
    """A directory that outlives every process; `write` is one append, whole or not at all."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir(parents=True, exist_ok=True)
        self._file = place / "journal.jsonl"

    @classmethod
    def of_process(cls) -> "Journal":
        """The journal of the installation that this process belongs to."""
        return cls(Path(os.environ[OUTSIDE]))

    def write(self, name: str, what: str, *, run: str, key: str | None = None) -> None:
        """Append a line, with the time at which it was written."""
        line: dict[str, Any] = {
            "at": time.clock_gettime(time.CLOCK_MONOTONIC), "node": os.environ["CHAOS_NODE"], "pid": os.getpid(),
            "name": name, "what": what, "run": run, "key": key,
        }  # fmt: skip
        fd = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(fd, json.dumps(line).encode() + b"\n")
        finally:
            os.close(fd)

    def read(self, name: str | None = None, *what: str) -> list[Entry]:
        """The lines about one name, or all; of some kinds, or of every kind."""
        if not self._file.exists():
            return []
        lines = [Entry(**json.loads(line)) for line in self._file.read_text().splitlines()]
        return [one for one in lines if name in (None, one.name) and (not what or one.what in what)]

    def wait(self, name: str, what: str, *, times: int = 1) -> list[Entry]:
        """Wait until it happened so often."""
        seen: Callable[[], list[Entry]] = lambda: self.read(name, what)  # noqa: E731 - it is asked twice
        wait_for(lambda: len(seen()) >= times, f"{times} x {what} of {name}")
        return seen()

    def open_gate(self, name: str) -> None:
        """Let everything go on that waits for this name."""
        (self.place / f"{name}.go").touch()

    def gate_is_open(self, name: str) -> bool:
        """Check whether a name may go on."""
        return (self.place / f"{name}.go").exists()


def overlaps(entries: list[Entry], *, active: tuple[str, ...] = ACTIVE) -> list[str]:
    """Say where one run of a name was active after another run of it had begun."""
    lines = sorted((one for one in entries if one.what in active), key=lambda one: one.at)
    begun: dict[str, str] = {}
    found: list[str] = []
    for line in lines:
        if line.what == "begin":
            begun[line.name] = line.run
        elif begun.get(line.name, line.run) != line.run:
            found.append(f"{line.name}: {line.what} of {line.node}/{line.run} after {begun[line.name]} began")
    return found
