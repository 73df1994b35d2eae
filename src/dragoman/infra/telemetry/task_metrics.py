"""What tasks do, for Prometheus: by skill, by the way they found it, by how much waits, by what is cleaned away."""

from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dragoman.infra.telemetry.ledger import Ledger

SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0)
OTHER: Final = "other"
MAX_CHILDREN: Final = 500


class TaskMetrics:
    """Tasks as the core sees them, whatever the door. Names beyond a few hundred are counted as "other"."""

    def __init__(self, registry: CollectorRegistry, ledger: Ledger) -> None:
        self._ledger = ledger
        self._turns = Counter(
            "dragoman_tasks_total", "Turns of tasks, by the state they came to.", ("skill", "state"), registry=registry
        )
        self._seconds = Histogram(
            "dragoman_task_seconds", "Time of a turn.", ("skill",), buckets=SECONDS, registry=registry
        )
        self._errors = Counter(
            "dragoman_task_errors_total", "Tasks that failed, by code.", ("skill", "code"), registry=registry
        )
        self._routing = Counter(
            "dragoman_routing_total",
            "Messages by how their work was found: tool, name, only_skill, model, ask.",
            ("by",),
            registry=registry,
        )
        # All processes look at the same queue, each when it beats: the largest view is shown.
        self._queue = Gauge(
            "dragoman_task_queue",
            "Tasks that wait for a process, run in one, or were left by one.",
            ("state",),
            multiprocess_mode="livemax",
            registry=registry,
        )
        self._cleaned = Counter(
            "dragoman_cleanup_removed_total",
            "What the clean-up emptied or removed: contexts, threads, tasks.",
            ("what",),
            registry=registry,
        )
        self._cleanup_seconds = Histogram(
            "dragoman_cleanup_seconds", "Time of a clean-up.", buckets=SECONDS, registry=registry
        )
        self._cleanup_at = Gauge(
            "dragoman_cleanup_last_run_timestamp_seconds",
            "When a clean-up last came to its end.",
            multiprocess_mode="max",
            registry=registry,
        )
        for what in ("contexts", "threads", "tasks"):
            self._cleaned.labels(what)
        self._known: set[str] = set()
        self._routes: dict[str, Counter] = {}
        self._children: dict[tuple[str | None, str], tuple[Counter, Histogram]] = {}

    def turned(self, skill: str | None, state: str, seconds: float, code: str | None) -> None:
        """Count one turn of a task; `code` is that of its error."""
        self._ledger.note(partial(self._turn, skill, state, seconds, code))

    def _turn(self, skill: str | None, state: str, seconds: float, code: str | None) -> None:
        children = self._children.get((skill, state))
        if children is None:
            name = self._bounded(skill or "none")
            children = (self._turns.labels(name, state), self._seconds.labels(name))
            if name != OTHER:
                self._children[skill, state] = children
        children[0].inc()
        children[1].observe(seconds)
        if code is not None:
            self._errors.labels(self._bounded(skill or "none"), self._bounded(code)).inc()

    def routed(self, by: str) -> None:
        """Count one message whose work was found."""
        if (child := self._routes.get(by)) is None:
            child = self._routes[by] = self._routing.labels(by)
        self._ledger.note(child.inc)

    def queued(self, *, due: int, running: int, left: int) -> None:
        """Set what the last look at the queue found."""
        self._queue.labels("due").set(due)
        self._queue.labels("running").set(running)
        self._queue.labels("left").set(left)

    def cleaned(self, *, contexts: int, threads: int, tasks: int, seconds: float, at: float) -> None:
        """Count what one clean-up did."""
        self._cleaned.labels("contexts").inc(contexts)
        self._cleaned.labels("threads").inc(threads)
        self._cleaned.labels("tasks").inc(tasks)
        self._cleanup_seconds.observe(seconds)
        self._cleanup_at.set(at)

    def _bounded(self, name: str) -> str:
        if name not in self._known and len(self._known) >= MAX_CHILDREN:
            return OTHER
        self._known.add(name)
        return name
