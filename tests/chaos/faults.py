"""The faults of a chaos run: drawn from a seed before it begins, then injected one after the other, some at once."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from threading import Event, Lock, Thread
from typing import Final

from tests.chaos.backends import Backend
from tests.chaos.installation import Installation, ahead_by
from tests.chaos.machine import full_disk
from tests.chaos.nodes import Node
from tests.chaos.partition import Link
from tests.patience import PATIENCE_S

POSTGRES: Final = "postgres"
VALKEY: Final = "valkey"
# How often each kind is drawn, beside the others that its victim can suffer.
_OF_NODES: Final = {"kill": 4, "kill-child": 1, "pause": 5, "cut": 3, "half-open": 3, "term": 2, "skew": 1}
_OF_POSTGRES: Final = {"kill": 4, "pause": 2, "terminate": 3, "refuse-28000": 1, "refuse-55000": 1, "full": 2}
_OF_VALKEY: Final = {"kill": 2, "pause": 2}
# Servers of others: the MCP server has no database.
_OF_FORMS: Final = {"kill": 2, "pause": 2, "term": 1}
_KINDS: Final = {POSTGRES: _OF_POSTGRES, VALKEY: _OF_VALKEY, "forms": _OF_FORMS}
_WEIGHTS: Final = {POSTGRES: 6, VALKEY: 2, "partner": 2, "forms": 1}
_NODE_WEIGHT: Final = 4


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to whom, for how long, and how long nothing else is begun before it."""

    kind: str
    victim: str
    lasts_s: float
    after_s: float

    def __str__(self) -> str:
        return f"{self.kind} {self.victim} {self.lasts_s:.1f} s"


def draw(seed: int, number: int, nodes: list[str], *, longest_s: float, gap_s: float, disk: bool) -> list[Fault]:
    """Draw the faults of a run: the same seed and the same processes give the same faults."""
    chance = Random(seed)
    victims = [*nodes, POSTGRES, VALKEY]
    weights = [_WEIGHTS.get(victim, _NODE_WEIGHT) for victim in victims]
    drawn: list[Fault] = []
    for _ in range(number):
        [victim] = chance.choices(victims, weights)
        kinds = _KINDS.get(victim, _OF_NODES)
        [kind] = chance.choices(list(kinds), list(kinds.values()))
        if kind == "full" and not disk:
            kind = "kill"
        brief = kind in ("kill", "kill-child", "term", "terminate", "skew")
        lasts_s = chance.uniform(0, 1.5) if brief else chance.uniform(1.0, longest_s)
        drawn.append(Fault(kind, victim, lasts_s, chance.uniform(0, gap_s)))
    return drawn


@dataclass(frozen=True, slots=True)
class Pause:
    """A process that stood still, by the clock of the journal."""

    pids: frozenset[int]
    began: float
    ended: float


class Injector:
    """Injects faults; a victim suffers one at a time, different victims may suffer at the same time."""

    def __init__(self, site: Installation) -> None:
        self._site = site
        self._nodes = site.nodes | site.partners
        self._locks = {name: Lock() for name in (*self._nodes, POSTGRES, VALKEY)}
        self._threads: list[Thread] = []
        self.injected: Counter[str] = Counter()
        self.pauses: list[Pause] = []
        self.troubles: list[str] = []

    def inject(self, fault: Fault) -> None:
        """Begin the fault once its victim is whole; returns when it has begun."""
        lock = self._locks[fault.victim]
        lock.acquire()
        begun = Event()
        thread = Thread(target=self._suffer, args=(fault, lock, begun), name=str(fault))
        self._threads.append(thread)
        thread.start()
        begun.wait(PATIENCE_S)
        self.injected[f"{fault.kind} {fault.victim}"] += 1

    def finish(self) -> None:
        """Wait until every fault is over."""
        for thread in self._threads:
            thread.join(2 * PATIENCE_S)
            if thread.is_alive():
                self.troubles.append(f"{thread.name} did not end")

    def _suffer(self, fault: Fault, lock: Lock, begun: Event) -> None:
        try:
            if fault.victim == POSTGRES:
                self._strike_postgres(fault, begun)
            elif fault.victim == VALKEY:
                self._strike_backend(self._site.valkey, fault, begun)
            else:
                self._strike_node(self._nodes[fault.victim], fault, begun)
        except Exception as error:  # noqa: BLE001 - a fault that cannot be injected is told at the end, and others go on
            self.troubles.append(f"{fault}: {type(error).__name__}: {error}")
        finally:
            begun.set()
            lock.release()

    def _strike_postgres(self, fault: Fault, begun: Event) -> None:
        postgres = self._site.postgres
        over: Callable[[], object]
        if fault.kind in ("kill", "pause"):
            self._strike_backend(postgres, fault, begun)
            return
        if fault.kind == "terminate":
            postgres.terminate_backends()
            return
        if fault.kind == "full":
            assert self._site.disk is not None
            with full_disk(self._site.disk):
                begun.set()
                time.sleep(fault.lasts_s)
            if not postgres.wait_until_ready():  # it ends when it cannot even write that it recovers
                postgres.start()
            return
        if fault.kind == "refuse-28000":
            postgres.refuse_by_hba()
            over = postgres.accept_by_hba
        else:
            postgres.refuse_connections()
            over = postgres.accept_connections
        begun.set()
        time.sleep(fault.lasts_s)
        over()

    def _strike_backend(self, backend: Backend, fault: Fault, begun: Event) -> None:
        if fault.kind == "kill":
            backend.kill()
            begun.set()
            time.sleep(fault.lasts_s)
            backend.start()
            return
        backend.pause()
        begun.set()
        time.sleep(fault.lasts_s)
        backend.resume()

    def _strike_node(self, node: Node, fault: Fault, begun: Event) -> None:
        if fault.kind in ("cut", "half-open"):
            node.link(Link.CUT if fault.kind == "cut" else Link.HALF_OPEN)
            begun.set()
            time.sleep(fault.lasts_s)
            node.link(Link.UP)
        elif fault.kind == "pause":
            self._pause(node, fault, begun)
        else:
            self._restart(node, fault, begun)

    def _pause(self, node: Node, fault: Fault, begun: Event) -> None:
        began = time.clock_gettime(time.CLOCK_MONOTONIC)
        pids = node.pause()
        begun.set()
        time.sleep(fault.lasts_s)
        ended = time.clock_gettime(time.CLOCK_MONOTONIC)
        # Noted before it goes on: whoever reads the journal knows of it.
        self.pauses.append(Pause(pids, began, ended))
        node.resume()

    def _restart(self, node: Node, fault: Fault, begun: Event) -> None:
        """End it, at once or politely, and start it again; a skewed one keeps its clock until its next restart."""
        node.supervised = False
        if fault.kind == "kill":
            node.kill()
        elif fault.kind == "kill-child":
            # Its parent starts another; a process without children is killed itself.
            node.kill_child()
        else:
            begun.set()
            with suppress(TimeoutError):
                node.stop()
        begun.set()
        time.sleep(fault.lasts_s)
        ahead_s = 600 + 100 * fault.lasts_s
        node.skew(ahead_by(ahead_s, node.environment) if fault.kind == "skew" else {})
        node.supervised = True
        node.launch_if_ended()


class Supervisor:
    """Starts processes again that ended by themselves: one that finds no database when it starts ends at once."""

    def __init__(self, site: Installation) -> None:
        self._site = site
        self._stopping = Event()
        self._thread = Thread(target=self._watch, name="supervisor")

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopping.set()
        self._thread.join(PATIENCE_S)

    def _watch(self) -> None:
        while not self._stopping.wait(0.5):
            for node in (*self._site.nodes.values(), *self._site.partners.values()):
                if node.supervised:
                    node.launch_if_ended()
