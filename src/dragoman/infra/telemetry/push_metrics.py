"""Push notifications, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter


class PushMetrics:
    """Notifications to webhooks, by what became of each attempt."""

    def __init__(self, registry: CollectorRegistry) -> None:
        attempts = Counter(
            "dragoman_push_attempts_total", "Attempts to deliver a notification.", ("outcome",), registry=registry
        )
        self.delivered = attempts.labels("delivered").inc
        self.retried = attempts.labels("retried").inc
        self.gave_up = attempts.labels("gave_up").inc
