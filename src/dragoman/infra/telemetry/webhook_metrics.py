"""Webhooks in, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class WebhookMetrics:
    """Webhooks by what became of them, and the queue of their events."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._received = Counter(
            "dragoman_webhooks_total",
            "Webhooks of registered sources: accepted, duplicate, rejected, limited, invalid.",
            ("provider", "outcome"),
            registry=registry,
        )
        self._ended = Counter(
            "dragoman_webhook_events_total",
            "Attempts at events of webhooks: processed, ignored, retried, dead.",
            ("outcome",),
            registry=registry,
        )
        # All processes look at the same queue: the largest view is shown.
        self._waiting = Gauge(
            "dragoman_webhook_queue", "Events that wait.", multiprocess_mode="livemax", registry=registry
        )
        self._oldest = Gauge(
            "dragoman_webhook_queue_age_seconds",
            "How long the oldest event has waited.",
            multiprocess_mode="livemax",
            registry=registry,
        )
        self._children: dict[tuple[str, str], Counter] = {}

    def received(self, provider: str, outcome: str, count: int = 1) -> None:
        """Count webhooks by what became of them."""
        if (child := self._children.get((provider, outcome))) is None:
            child = self._children[provider, outcome] = self._received.labels(provider, outcome)
        child.inc(count)

    def ended(self, outcome: str, count: int = 1) -> None:
        """Count attempts at events."""
        self._ended.labels(outcome).inc(count)

    def queued(self, waiting: int, oldest_s: float) -> None:
        """Set how many events wait, and for how long the oldest has."""
        self._waiting.set(waiting)
        self._oldest.set(oldest_s)
