"""Traces: nothing when off; when on, real OTLP over a socket, in the caller's own trace."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, cast

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from dragoman.infra.telemetry.traces import Span, TraceParent, Tracer, find_traceparent, open_tracer
from tests.patience import PATIENCE_S

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector(HTTPServer):
    """An OTLP/HTTP receiver that keeps the spans."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), CollectorHandler)
        self.paths: list[str] = []
        self.requests: list[Any] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def spans(self) -> dict[str, Any]:
        resources = (resource for request in self.requests for resource in request.resource_spans)
        return {span.name: span for resource in resources for scope in resource.scope_spans for span in scope.spans}


class CollectorHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        collector = cast("Collector", self.server)
        body = self.rfile.read(int(self.headers["content-length"]))
        collector.paths.append(self.path)
        collector.requests.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it has there
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join(timeout=PATIENCE_S)


def attributes(span: Any) -> dict[str, str]:
    return {item.key: item.value.string_value for item in span.attributes}


def test_spans_continue_the_callers_trace_and_nest(collector: Collector) -> None:
    tracer = open_tracer(collector.url, version="1.2.3")

    with tracer.start("GET /v1/memory/dgm_abc", f"00-{TRACE}-{PARENT}-01", route="/v1/memory") as outer:
        outer.set(tenant="acme")
        outer.rename("request")
        with tracer.start("gate") as inner:
            pass
    tracer.shutdown()

    spans = collector.spans()
    assert collector.paths == ["/v1/traces"]
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    assert spans["request"].parent_span_id.hex() == PARENT
    assert spans["gate"].parent_span_id.hex() == outer.span_id
    assert attributes(spans["request"]) == {"route": "/v1/memory", "tenant": "acme"}
    assert (outer.trace_id, inner.trace_id) == (TRACE, TRACE)
    assert outer.traceparent == f"00-{TRACE}-{outer.span_id}-01"


def test_a_failure_is_marked_and_its_message_stays_here(collector: Collector) -> None:
    tracer = open_tracer(collector.url)

    with pytest.raises(ValueError, match="dgm_"), tracer.start("work", query="token=hunter2"):
        raise ValueError("dgm_live_0123456789")
    tracer.shutdown()

    span = collector.spans()["work"]
    assert (span.status.code, span.status.message) == (2, "ValueError")
    assert attributes(span) == {"query": "token=[redacted]", "exception.type": "ValueError"}
    assert b"0123456789" not in collector.requests[0].SerializeToString()


def test_a_caller_that_does_not_sample_is_not_sent(collector: Collector) -> None:
    tracer = open_tracer(collector.url)

    with tracer.start("request", f"00-{TRACE}-{PARENT}-00") as span:
        trace_id = span.trace_id
    tracer.shutdown()

    assert (trace_id, collector.requests) == (TRACE, [])


def test_without_an_endpoint_every_span_is_the_same_nothing() -> None:
    tracer = open_tracer("")

    with tracer.start("a", f"00-{TRACE}-{PARENT}-01", x=1) as first, tracer.start("b") as second:
        first.set(y=2)
        first.rename("c")

    assert type(tracer) is Tracer
    assert type(first) is Span
    assert first is second
    assert (first.trace_id, first.span_id, first.traceparent) == ("", "", "")


def test_off_does_not_import_opentelemetry() -> None:
    script = """
import sys
from dragoman.infra.telemetry.traces import open_tracer
with open_tracer("").start("a"):
    pass
sys.exit(any(name.startswith("opentelemetry") for name in sys.modules))
"""

    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=PATIENCE_S).returncode == 0


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    with pytest.raises(RuntimeError, match=r"pip install 'dragoman\[traces\]'"):
        open_tracer("http://127.0.0.1:4318")


@pytest.mark.parametrize(
    "header",
    [
        "",
        "nonsense",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE.upper()}-{PARENT}-01",
    ],
)
def test_a_broken_traceparent_is_as_good_as_none(header: str) -> None:
    assert find_traceparent(header) is None


def test_a_later_version_of_traceparent_is_read_as_far_as_it_is_known() -> None:
    assert find_traceparent(f"01-{TRACE}-{PARENT}-00-more") == TraceParent(TRACE, PARENT, sampled=False)
