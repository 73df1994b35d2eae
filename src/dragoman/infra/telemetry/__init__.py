"""Logs, security events, metrics, health and traces.

A parent that forks its children imports `prepare_multiprocess` from `.multiprocess`, before this: here
prometheus_client is imported already, and its choice is made.
"""

from dragoman.infra.telemetry.health import Degraded, DependencyHealth, Health, HealthReport
from dragoman.infra.telemetry.job_metrics import JobMetrics
from dragoman.infra.telemetry.logs import LogFormat, LogOutput, access_log, configure_logs, route_logs
from dragoman.infra.telemetry.metrics import Metrics, mark_process_dead
from dragoman.infra.telemetry.multiprocess import prepare_multiprocess
from dragoman.infra.telemetry.push_metrics import PushMetrics
from dragoman.infra.telemetry.redaction import redact_text
from dragoman.infra.telemetry.scrapes import Scrapes
from dragoman.infra.telemetry.security import SecurityEvents
from dragoman.infra.telemetry.subscription_metrics import SubscriptionMetrics
from dragoman.infra.telemetry.task_metrics import TaskMetrics
from dragoman.infra.telemetry.traces import Span, TraceParent, Tracer, find_traceparent, open_tracer

__all__ = [
    "Degraded",
    "DependencyHealth",
    "Health",
    "HealthReport",
    "JobMetrics",
    "LogFormat",
    "LogOutput",
    "Metrics",
    "PushMetrics",
    "Scrapes",
    "SecurityEvents",
    "Span",
    "SubscriptionMetrics",
    "TaskMetrics",
    "TraceParent",
    "Tracer",
    "access_log",
    "configure_logs",
    "find_traceparent",
    "mark_process_dead",
    "open_tracer",
    "prepare_multiprocess",
    "redact_text",
    "route_logs",
]
