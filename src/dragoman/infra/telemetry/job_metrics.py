"""Background jobs, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class JobMetrics:
    """Background jobs by name; of several processes, the worst view is the one shown."""

    def __init__(self, registry: CollectorRegistry) -> None:
        name = ("job",)
        self._failures = Counter(
            "dragoman_job_failures_total", "Rounds of a background job that failed.", name, registry=registry
        )
        self._up = Gauge(
            "dragoman_job_up",
            "1 while a background job runs and its last round succeeded.",
            name,
            multiprocess_mode="livemin",
            registry=registry,
        )
        self._succeeded_at = Gauge(
            "dragoman_job_last_success_timestamp_seconds",
            "When a background job last succeeded.",
            name,
            multiprocess_mode="livemin",
            registry=registry,
        )

    def started(self, job: str) -> None:
        """Show the job before its first round has ended."""
        self._failures.labels(job)
        self._up.labels(job).set(1)

    def succeeded(self, job: str, *, at: float) -> None:
        """Count a round that succeeded."""
        self._up.labels(job).set(1)
        self._succeeded_at.labels(job).set(at)

    def failed(self, job: str) -> None:
        """Count a round that failed."""
        self._failures.labels(job).inc()
        self._up.labels(job).set(0)

    def stopped(self, job: str) -> None:
        """Show that the job does not run any more."""
        self._up.labels(job).set(0)
