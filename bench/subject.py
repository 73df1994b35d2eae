"""Servers that are compared: each gets the same load for the same time, in turns."""

import json
import os
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from tests.harness import Server

from bench.load import Load, Plan, drive
from bench.process import cpu_s, servers, tree_cpu_s

CONNECTIONS = 16
_PLENTY = 1_000_000_000
_AGENT = Path(__file__).parent.parent / "examples" / "conformance"
# Each run of the generator numbers its requests in a range of its own: no e-mail address comes twice.
_RUNS = count(1)


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure."""

    rounds: int
    seconds: float
    open_s: float
    starts: int
    checks: int
    subscribers: int
    memories: int
    everybodys: int
    searches: int
    delegated: int
    stored: tuple[int, ...]
    billed: int


FULL = Effort(
    rounds=5, seconds=2.0, open_s=10.0, starts=3, checks=10_000, subscribers=10_000, memories=100_000,
    everybodys=120_000, searches=300, delegated=10_000, stored=(10_000, 1_000_000), billed=1_000_000,
)  # fmt: skip
QUICK = Effort(
    rounds=2, seconds=0.8, open_s=2.0, starts=1, checks=2_000, subscribers=1_000, memories=10_000, everybodys=20_000,
    searches=100, delegated=4_000, stored=(10_000, 100_000), billed=100_000,
)  # fmt: skip
# A million memories, and ten million tasks, take minutes to put in.
LARGE = replace(FULL, everybodys=1_000_000, stored=(10_000, 1_000_000, 10_000_000))


class Running(Protocol):
    """A server that was started."""

    url: str

    @property
    def pid(self) -> int:
        """Of its first process."""
        ...


@dataclass(slots=True)
class Turn:
    """One run of the load; CPU is that of the server, then that of all it started (PostgreSQL, Valkey)."""

    load: Load
    cpu_us: float
    beside_us: float


@dataclass(slots=True)
class Subject:
    """A request to a server, signed where it has a key, and what came of it in each turn."""

    name: str
    server: Running
    request: str
    key: str = field(default="", repr=False)
    signed: str = ""
    turns: list[Turn] = field(default_factory=list[Turn])
    tls: tuple[str, ...] = ()

    @property
    def per_s(self) -> float:
        """Of the best turn: noise only ever takes away."""
        return max(turn.load.per_s for turn in self.turns)

    @property
    def cpu_us(self) -> float:
        """CPU of the server by request, in the best turn: neighbours on the same cores only ever add to it."""
        return min(turn.cpu_us for turn in self.turns)

    @property
    def typical_cpu_us(self) -> float:
        """The median of the turns; far from the best one, the machine was noisy."""
        return median(turn.cpu_us for turn in self.turns)

    @property
    def beside_us(self) -> float:
        """CPU of what runs beside the server, by request."""
        return min(turn.beside_us for turn in self.turns)

    @property
    def server_errors(self) -> int:
        """Over all turns."""
        return sum(turn.load.server_errors for turn in self.turns)

    def figures(self) -> dict[str, Any]:
        """For the record."""
        return {
            "per_s": [round(turn.load.per_s, 1) for turn in self.turns],
            "cpu_us": [round(turn.cpu_us, 1) for turn in self.turns],
            "beside_us": [round(turn.beside_us, 1) for turn in self.turns],
            "p50_ms": [turn.load.latency.p50_ms for turn in self.turns],
            "p99_ms": [turn.load.latency.p99_ms for turn in self.turns],
        }

    def take_turn(self, seconds: float, *, rate: float = 0.0, connections: int = CONNECTIONS) -> Turn:
        """Load it once: as fast as it goes, or at a rate."""
        answering = servers(self.server.pid)
        before, beside_before = sum(map(cpu_s, answering)), _others_cpu_s(self.server.pid, answering)
        warm_s = min(1.0, seconds / 4)
        first = next(_RUNS) * 10_000_000
        plan = Plan(
            self.server.url, self.request, connections, seconds, warm_s, rate, first,
            tls=self.tls, key=self.key, signed=self.signed,
        )  # fmt: skip
        load = drive(plan)
        used_s = sum(map(cpu_s, answering)) - before
        beside_s = _others_cpu_s(self.server.pid, answering) - beside_before
        turn = Turn(load, used_s / load.answered * 1e6, beside_s / load.answered * 1e6)
        self.turns.append(turn)
        return turn


def take_turns(subjects: Sequence[Subject], effort: Effort) -> None:
    """A B C A B C: a disturbance hits all of them, not one."""
    for subject in subjects:
        subject.take_turn(effort.seconds / 2)
        subject.turns.clear()
    for _ in range(effort.rounds):
        for subject in subjects:
            subject.take_turn(effort.seconds)


@contextmanager
def dragoman(*arguments: str) -> Generator[Server]:
    """Our server as it ships, with the conformance agent, three limits on each request and none of them in the way."""
    skills = json.dumps(dict.fromkeys(("tenant", "user", "identity"), _PLENTY))
    environment = {
        "DRAGOMAN_LIMITS__SKILL_PER_MIN": skills,
        "DRAGOMAN_LIMITS__A2A_TENANT_PER_MIN": str(_PLENTY),
        **{f"DRAGOMAN_LIMITS__STREAMS_PER_{whose}": str(_PLENTY) for whose in ("CALLER", "TENANT", "PROCESS")},
        "DRAGOMAN_AGENT": "agent:agent",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(_AGENT), os.environ.get("PYTHONPATH")])),
    }
    server = Server(environment, *arguments)
    try:
        # Not `with server`: one that started and never became ready has to be stopped, too.
        yield server.start()
    finally:
        server.stop()
        shutil.rmtree(server.data_dir.parent, ignore_errors=True)


def _others_cpu_s(pid: int, answering: list[int]) -> float:
    below = tree_cpu_s(pid)
    return below - sum(cpu_s(child) for child in answering if child != pid)
