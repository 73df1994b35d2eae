"""Traces over OTLP when an endpoint is configured; otherwise one shared object that does nothing.

OpenTelemetry is imported only when it is used. Attributes are redacted, and of an exception only its type is sent.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

from dragoman.infra.telemetry.redaction import redact_text

_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")


@dataclass(frozen=True, slots=True)
class TraceParent:
    """Where a request says that it comes from (W3C Trace Context)."""

    trace_id: str
    span_id: str
    sampled: bool


def find_traceparent(header: str) -> TraceParent | None:
    """Read a `traceparent` header; one that breaks the rules is as good as none."""
    match = _TRACEPARENT.fullmatch(header.strip())
    if match is None:
        return None
    version, trace_id, span_id, flags = match.groups()
    broken = version == "ff" or (version == "00" and len(header.strip()) != 55)
    if broken or not trace_id.strip("0") or not span_id.strip("0"):
        return None
    return TraceParent(trace_id, span_id, sampled=bool(int(flags, 16) & 1))


class Span:
    """A stretch of work, used with `with`. This one records nothing: it is what a switched-off tracer gives."""

    __slots__ = ()

    trace_id: str = ""
    span_id: str = ""
    traceparent: str = ""

    def set(self, **attributes: str | float | bool) -> None:
        """Add what became known on the way."""

    def rename(self, name: str) -> None:
        """Name it by what became known on the way: a route template, where it began with a raw path."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        """The work is done, well or badly."""


_NOTHING: Final = Span()


class Tracer:
    """Starts spans. This one is off: it gives the same empty span every time."""

    def start(self, name: str, traceparent: str = "", /, **attributes: str | float | bool) -> Span:  # noqa: ARG002
        """Begin a span under the running one, or under a caller's `traceparent` header."""
        return _NOTHING

    def shutdown(self) -> None:
        """Send what is still waiting; blocks for at most a few seconds, so call it in a thread."""


def open_tracer(
    endpoint: str | None, *, service: str = "dragoman", version: str = "", sample_ratio: float = 1.0
) -> Tracer:
    """A tracer that sends to an OTLP/HTTP collector (`http://collector:4318`), or the idle one without an endpoint.

    Raises:
        RuntimeError: an endpoint is given and OpenTelemetry is not installed.
    """
    if not endpoint:
        return Tracer()
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - optional
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased  # noqa: PLC0415
    except ImportError as missing:
        raise RuntimeError("traces need OpenTelemetry: pip install 'dragoman[traces]'") from missing
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(sample_ratio)),
        resource=Resource.create({"service.name": service, "service.version": version}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=_signal_url(endpoint))))
    return _LiveTracer(provider.get_tracer(service), provider.shutdown)


def _signal_url(endpoint: str) -> str:
    bare = urlsplit(endpoint).path in ("", "/")
    return endpoint.rstrip("/") + "/v1/traces" if bare else endpoint


class _LiveTracer(Tracer):
    def __init__(self, tracer: Any, close: Callable[[], None]) -> None:
        from opentelemetry import context, trace  # noqa: PLC0415 - optional

        self._tracer = tracer
        self._close = close
        self._trace = trace
        self._context = context

    def start(self, name: str, traceparent: str = "", /, **attributes: str | float | bool) -> Span:
        parent = find_traceparent(traceparent) if traceparent else None
        context = None if parent is None else self._continue(parent)
        span = self._tracer.start_span(redact_text(name), context=context, attributes=_clean(attributes))
        return _LiveSpan(span, self._trace, self._context)

    def shutdown(self) -> None:
        self._close()

    def _continue(self, parent: TraceParent) -> Any:
        origin = self._trace.SpanContext(
            int(parent.trace_id, 16),
            int(parent.span_id, 16),
            is_remote=True,
            trace_flags=self._trace.TraceFlags(int(parent.sampled)),
        )
        return self._trace.set_span_in_context(self._trace.NonRecordingSpan(origin))


class _LiveSpan(Span):
    __slots__ = ("_context", "_span", "_token", "_trace", "span_id", "trace_id", "traceparent")

    def __init__(self, span: Any, trace: Any, context: Any) -> None:
        identity = span.get_span_context()
        self.trace_id = f"{identity.trace_id:032x}"
        self.span_id = f"{identity.span_id:016x}"
        self.traceparent = f"00-{self.trace_id}-{self.span_id}-{identity.trace_flags:02x}"
        self._span = span
        self._trace = trace
        self._context = context
        self._token: Any = None

    def set(self, **attributes: str | float | bool) -> None:
        self._span.set_attributes(_clean(attributes))

    def rename(self, name: str) -> None:
        self._span.update_name(redact_text(name))

    def __enter__(self) -> Self:
        self._token = self._context.attach(self._trace.set_span_in_context(self._span))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        if kind is not None:
            self._span.set_attribute("exception.type", kind.__name__)
            self._span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, kind.__name__))
        self._context.detach(self._token)
        self._span.end()


def _clean(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: redact_text(value) if isinstance(value, str) else value for name, value in attributes.items()}
