"""Events on their way to subscribers, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class SubscriptionMetrics:
    """Deliveries of events, by what became of each attempt, and how far behind they are."""

    def __init__(self, registry: CollectorRegistry) -> None:
        attempts = Counter(
            "dragoman_subscription_attempts_total",
            "Attempts to deliver an event to a subscription.",
            ("outcome",),
            registry=registry,
        )
        self.delivered = attempts.labels("delivered").inc
        self.retried = attempts.labels("retried").inc
        self.gave_up = attempts.labels("gave_up").inc
        self.disabled = Counter(
            "dragoman_subscriptions_disabled_total",
            "Subscriptions that the server has disabled.",
            registry=registry,
        ).inc
        # All processes look at the same queue: the largest view is shown.
        self._pending = Gauge(
            "dragoman_subscription_pending",
            "Events that are due to be delivered.",
            multiprocess_mode="livemax",
            registry=registry,
        )
        self._lag = Gauge(
            "dragoman_subscription_lag_seconds",
            "For how long the oldest of them has been due.",
            multiprocess_mode="livemax",
            registry=registry,
        )

    def waiting(self, *, pending: int, lag_s: float) -> None:
        """Set what the last look at the queue found."""
        self._pending.set(pending)
        self._lag.set(lag_s)
