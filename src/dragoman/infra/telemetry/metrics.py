"""What Prometheus scrapes; right with one process or with several that share files (see `multiprocess`).

Children of labels are kept in dictionaries, since finding one through `.labels()` costs as much as the count itself.
Label values are bounded: route templates, operation names and the names our code gives; never a raw path.
"""

import os
from functools import partial
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
    values,
)

from dragoman.infra.telemetry.job_metrics import JobMetrics
from dragoman.infra.telemetry.ledger import Ledger
from dragoman.infra.telemetry.multiprocess import VARIABLE
from dragoman.infra.telemetry.process import ProcessSample
from dragoman.infra.telemetry.push_metrics import PushMetrics
from dragoman.infra.telemetry.subscription_metrics import SubscriptionMetrics
from dragoman.infra.telemetry.task_metrics import TaskMetrics
from dragoman.infra.telemetry.webhook_metrics import WebhookMetrics

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
RATIOS: Final = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER: Final = "other"
MAX_CHILDREN: Final = 2_000
MAX_TENANTS: Final = 100

BREAKER_STATES: Final = {"closed": 0, "half-open": 1, "open": 2}


class HttpMetrics:
    """Requests by route template: how many, how long, how many at this moment."""

    def __init__(self, registry: CollectorRegistry, ledger: Ledger, *, shared: bool) -> None:
        self._ledger = ledger
        self._requests = Counter(
            "dragoman_http_requests_total", "Finished requests.", ("method", "route", "status"), registry=registry
        )
        self._seconds = Histogram(
            "dragoman_http_request_seconds", "Time to answer.", ("method", "route"), buckets=SECONDS, registry=registry
        )
        # Of living processes only: a dead one serves nobody.
        self._open = Gauge(
            "dragoman_open_requests", "Requests being served.", multiprocess_mode="livesum", registry=registry
        )
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._now_open = 0
        self._shared = shared
        if not shared:
            # Asked for at a scrape, which comes less often than a request.
            self._open.set_function(lambda: self._now_open)

    def opened(self) -> None:
        """A request begins."""
        self._now_open += 1
        if self._shared:
            self._open.set(self._now_open)

    def closed(self) -> None:
        """A request has ended."""
        self._now_open -= 1
        if self._shared:
            self._open.set(self._now_open)

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one finished request. `route` is the template (`/v1/memory/{id}`), empty when nothing matched."""
        self._ledger.note(partial(self._observe, method, route, status, seconds))

    def _observe(self, method: str, route: str, status: int, seconds: float) -> None:
        children = self._children.get((method, route, status))
        if children is None:
            children = self._child(method, route, status)
        children[0].inc()
        children[1].observe(seconds)

    def _child(self, method: str, route: str, status: int) -> tuple[Counter, Histogram]:
        key = (method, route, status)
        known = method if method in METHODS else OTHER
        place = "unmatched" if not route else route if len(self._children) < MAX_CHILDREN else OTHER
        children = (self._requests.labels(known, place, str(status)), self._seconds.labels(known, place))
        if len(self._children) < MAX_CHILDREN and known == method:
            self._children[key] = children
        return children


class OperationMetrics:
    """Operations through the gate, whatever the door."""

    def __init__(self, registry: CollectorRegistry, ledger: Ledger) -> None:
        self._ledger = ledger
        self._count = Counter(
            "dragoman_operations_total", "Operations run.", ("operation", "skill", "outcome"), registry=registry
        )
        self._seconds = Histogram(
            "dragoman_operation_seconds",
            "Time in the gate and below.",
            ("skill", "operation"),
            buckets=SECONDS,
            registry=registry,
        )
        self._children: dict[tuple[str, str], tuple[Counter, Histogram]] = {}

    def observe(self, operation: str, skill: str, outcome: str, seconds: float) -> None:
        """Count one run; `outcome` is "ok" or the code of its error."""
        self._ledger.note(partial(self._observe, operation, skill, outcome, seconds))

    def _observe(self, operation: str, skill: str, outcome: str, seconds: float) -> None:
        children = self._children.get((operation, outcome))
        if children is None:
            children = (self._count.labels(operation, skill, outcome), self._seconds.labels(skill, operation))
            self._children[operation, outcome] = children
        children[0].inc()
        children[1].observe(seconds)


class LimitMetrics:
    """Rate limits: who was sent away, and how full the limits are."""

    def __init__(self, registry: CollectorRegistry, ledger: Ledger) -> None:
        self._ledger = ledger
        self._limited = Counter(
            "dragoman_rate_limited_total",
            "Requests refused by a rate limit.",
            ("tenant_id", "skill_name", "limit"),
            registry=registry,
        )
        # Usage by tenant would be a series a tenant; how full the limits run is a distribution by kind of limit.
        self._used = Histogram(
            "dragoman_rate_limit_used_ratio",
            "Used part of a rate limit at each check.",
            ("limit",),
            buckets=RATIOS,
            registry=registry,
        )
        self._refusals: dict[tuple[str, str, str], Counter] = {}
        self._tenants: set[str] = set()
        self._usages: dict[str, Histogram] = {}

    def refused(self, tenant_id: str, skill_name: str, limit: str) -> None:
        """Count one refusal; only the first tenants that were refused are named, later ones are "other"."""
        if tenant_id not in self._tenants:
            if len(self._tenants) < MAX_TENANTS:
                self._tenants.add(tenant_id)
            else:
                tenant_id = OTHER
        key = (tenant_id, skill_name, limit)
        child = self._refusals.get(key)
        if child is None:
            if len(self._refusals) >= MAX_CHILDREN:
                key = (OTHER, skill_name, limit)
            child = self._limited.labels(*key)
            self._refusals[key] = child
        child.inc()

    def used(self, limit: str, ratio: float) -> None:
        """Note how much of a limit is used after a check: 0.0 is untouched, 1.0 is full."""
        self._ledger.note(partial(self._use, limit, ratio))

    def _use(self, limit: str, ratio: float) -> None:
        child = self._usages.get(limit)
        if child is None:
            child = self._usages[limit] = self._used.labels(limit)
        child.observe(ratio)


class DependencyMetrics:
    """What this server needs; the worst view of any living process is the one shown."""

    def __init__(self, registry: CollectorRegistry) -> None:
        name = ("dependency",)
        self._up = Gauge(
            "dragoman_dependency_up", "1 when it answers.", name, multiprocess_mode="livemin", registry=registry
        )
        self._latency = Gauge(
            "dragoman_dependency_latency_seconds",
            "Time of the last check.",
            name,
            multiprocess_mode="livemax",
            registry=registry,
        )
        self._breaker = Gauge(
            "dragoman_breaker_state",
            "0 closed, 1 half-open, 2 open.",
            ("upstream",),
            multiprocess_mode="livemax",
            registry=registry,
        )

        # A series a host of a tenant would be without bounds, and would tell of tenants.
        self._tenant_breakers = Gauge(
            "dragoman_tenant_breakers_open",
            "Breakers of tenants' own upstreams that are not closed.",
            ("upstream",),
            multiprocess_mode="livesum",
            registry=registry,
        )

    def checked(self, dependency: str, *, up: bool, seconds: float) -> None:
        """Set what the last check found."""
        self._up.labels(dependency).set(1 if up else 0)
        self._latency.labels(dependency).set(seconds)

    def breaker(self, upstream: str, state: str) -> None:
        """Set the state of a breaker, by its name."""
        self._breaker.labels(upstream).set(BREAKER_STATES[state])

    def tenant_breakers(self, upstream: str, count: int) -> None:
        """Set how many breakers of tenants' own upstreams are not closed."""
        self._tenant_breakers.labels(upstream).set(count)


class ProcessMetrics:
    """This process. Summed over the living ones: the client's own collectors do not work with several."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._rss = Gauge(
            "dragoman_process_resident_bytes", "Resident memory.", multiprocess_mode="livesum", registry=registry
        )
        self._fds = Gauge(
            "dragoman_process_open_fds", "Open descriptors.", multiprocess_mode="livesum", registry=registry
        )
        self._processes = Gauge(
            "dragoman_processes", "Living processes.", multiprocess_mode="livesum", registry=registry
        )
        self._lag = Gauge(
            "dragoman_event_loop_lag_seconds",
            "Worst delay of the event loop since the last pulse.",
            multiprocess_mode="livemax",
            registry=registry,
        )
        # A counter, not a gauge: the time of processes that ended must not be taken back.
        self._cpu = Counter("dragoman_process_cpu_seconds_total", "CPU time used.", registry=registry)
        self._counted_cpu_s = 0.0

    def sampled(self, sample: ProcessSample, *, loop_lag_s: float) -> None:
        """Set what the health pulse measured."""
        self._processes.set(1)
        self._rss.set(sample.resident_bytes)
        self._fds.set(sample.open_fds)
        self._lag.set(loop_lag_s)
        self._cpu.inc(max(0.0, sample.cpu_s - self._counted_cpu_s))
        self._counted_cpu_s = sample.cpu_s


class Metrics:
    """All metrics of this process; the composition root builds one.

    Raises:
        RuntimeError: the processes should share their metrics, and prometheus_client was imported too early for it.
    """

    def __init__(self) -> None:
        self._shared = bool(getattr(values.ValueClass, "_multiprocess", False))
        if VARIABLE in os.environ and not self._shared:
            raise RuntimeError("prometheus_client was imported before prepare_multiprocess() was called")
        registry = CollectorRegistry()
        self._registry = registry
        # Whoever is scraped can see to its own ledger, but not to those of other processes.
        self._ledger = ledger = Ledger(most=1) if self._shared else Ledger()
        self.http = HttpMetrics(registry, ledger, shared=self._shared)
        self.operations = OperationMetrics(registry, ledger)
        self.limits = LimitMetrics(registry, ledger)
        self.dependencies = DependencyMetrics(registry)
        self.process = ProcessMetrics(registry)
        self.tasks = TaskMetrics(registry, ledger)
        self.push = PushMetrics(registry)
        self.webhooks = WebhookMetrics(registry)
        self.subscriptions = SubscriptionMetrics(registry)
        self.jobs = JobMetrics(registry)
        self._security = Counter("dragoman_security_events_total", "Security events.", ("event",), registry=registry)

    def security_event(self, event: str) -> None:
        """Count one event of the security stream."""
        self._security.labels(event).inc()

    def render(self) -> tuple[bytes, str]:
        """The body and the content type of a scrape, over all processes.

        With several processes it reads their files (a few milliseconds): a door calls it in a thread.
        """
        self._ledger.settle()
        if self._shared:
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)
            return generate_latest(registry), CONTENT_TYPE_LATEST
        # What a module counts for itself is in the client's own registry.
        return generate_latest(REGISTRY) + generate_latest(self._registry), CONTENT_TYPE_LATEST


def mark_process_dead(pid: int) -> None:
    """Take a dead child out of the gauges; its counts stay. The parent calls it when a child has ended."""
    if VARIABLE in os.environ:
        multiprocess.mark_process_dead(pid, os.environ[VARIABLE])
