"""Log lines: their shape, their way from every library, and what must never be in them."""

import io
import json
import logging
import re
from collections.abc import Iterator
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from dragoman.context import Caller, PrincipalType, RequestContext, Role, TenantId, enter_request
from dragoman.infra.telemetry.logs import access_log, configure_logs
from tests.infra.log_lines import Lines, Terminal, restored_logging

LOGS = configure_logs.__module__
TENANT = TenantId(UUID("01930000-0000-7000-8000-000000000001"))
ADA = Caller(
    tenant=TENANT,
    tenant_slug="acme",
    subject="ada",
    type=PrincipalType.USER,
    roles=frozenset({Role.VIEWER}),
    credential="c1",
    issued_at=0.0,
)


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    with restored_logging():
        yield


@pytest.fixture
def lines() -> Lines:
    kept = Lines()
    configure_logs(format="json", level="info", security_log=None, stream=kept.stream)
    return kept


@dataclass
class SpanStub:
    trace_id: str = "0af7651916cd43dd8448eb211c80319c"
    span_id: str = "b7ad6b7169203331"


def in_request(work: Any) -> None:
    def run() -> None:
        enter_request(RequestContext(id="r1", door="rest", correlation_id="c1", caller=ADA, span=SpanStub()))
        work()

    copy_context().run(run)


@pytest.mark.req("GW-404")
def test_a_line_inside_a_request_says_whose_it_is(lines: Lines) -> None:
    in_request(lambda: structlog.get_logger("dragoman.test").info("stored", count=2))

    line = lines.only()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line.pop("time"))
    assert line == {
        "severity": "INFO",
        "message": "stored",
        "request_id": "r1",
        "correlation_id": "c1",
        "tenant": "acme",
        "tenant_id": str(TENANT),
        "subject": "ada",
        "logging.googleapis.com/trace": "0af7651916cd43dd8448eb211c80319c",
        "logging.googleapis.com/spanId": "b7ad6b7169203331",
        "logger": "dragoman.test",
        "count": 2,
    }


@pytest.mark.req("GW-404")
def test_an_access_line_has_the_fields_of_cloud_logging_and_no_query(lines: Lines) -> None:
    access_log(
        method="GET",
        path="/v1/memory/7?q=private",
        route="/v1/memory/{id}",
        status=200,
        duration_s=0.1234,
        ip="10.0.0.9",
        user_agent="curl/8",
        request_bytes=0,
        response_bytes=512,
    )

    line = lines.only()
    assert line["httpRequest"] == {
        "requestMethod": "GET",
        "requestUrl": "/v1/memory/7",
        "status": 200,
        "latency": "0.123400s",
        "remoteIp": "10.0.0.9",
        "userAgent": "curl/8",
        "requestSize": "0",
        "responseSize": "512",
    }
    assert (line["severity"], line["route"], "private" in lines.text) == ("INFO", "/v1/memory/{id}", False)


def test_a_server_error_is_a_warning_and_passes_a_stricter_level() -> None:
    kept = Lines()
    configure_logs(format="json", level="warning", security_log=None, stream=kept.stream)

    access_log(method="GET", path="/a", route="/a", status=200, duration_s=0.1)
    access_log(method="GET", path="/a", route="/a", status=503, duration_s=0.1)

    assert kept.only()["severity"] == "WARNING"


@pytest.mark.req("GW-404")
def test_standard_logging_takes_the_same_way(lines: Lines) -> None:
    logging.getLogger("uvicorn.error").warning("listening on %s with password=%s", "8080", "hunter2")

    line = lines.only()
    assert (line["severity"], line["logger"]) == ("WARNING", "uvicorn.error")
    assert line["message"] == "listening on 8080 with password=[redacted]"


def test_a_library_with_a_wrong_format_string_is_still_heard(lines: Lines) -> None:
    record = logging.makeLogRecord({"name": "library", "levelno": 40, "msg": "%d items", "args": ("three",)})

    (ours,) = [handler for handler in logging.getLogger().handlers if type(handler).__module__ == LOGS]
    ours.handle(record)

    assert lines.only()["message"] == "%d items ('three',)"


@pytest.mark.parametrize("level", [10, 25, 35, 60])
def test_odd_levels_of_libraries_fall_on_the_nearest_severity_below(level: int) -> None:
    kept = Lines()
    configure_logs(format="json", level="debug", security_log=None, stream=kept.stream)
    logging.getLogger("library").setLevel(1)

    logging.getLogger("library").log(level, "x")
    logging.getLogger("library").setLevel(logging.NOTSET)

    wanted = {10: "DEBUG", 25: "INFO", 35: "WARNING", 60: "CRITICAL"}
    assert kept.only()["severity"] == wanted[level]


def raise_from_driver() -> None:
    raise ConnectionError("cannot reach postgresql://dragoman:s3cr3t@db:5432/x")


@pytest.mark.req("GW-404")
def test_an_exception_brings_its_whole_stack_without_its_secrets(lines: Lines) -> None:
    try:
        raise_from_driver()
    except ConnectionError:
        structlog.get_logger().exception("failed")

    line = lines.only()
    assert line["severity"] == "ERROR"
    assert line["stack_trace"].startswith("Traceback (most recent call last)")
    assert "ConnectionError: cannot reach postgresql://[redacted]@db:5432/x" in line["stack_trace"]


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_anything_can_be_logged(lines: Lines) -> None:
    cycle: list[Any] = []
    cycle.append(cycle)

    structlog.get_logger().info("x", odd=Unprintable(), error=ValueError("v"), names={"a"}, cycle=cycle, n=2**80)
    structlog.get_logger().info("y", odd=Unprintable(), error=ValueError("v"), names={"a"})

    first, second = lines.all()
    assert (first["odd"], first["n"]) == ("<Unprintable>", str(2**80))
    assert (second["odd"], second["error"], second["names"]) == ("<Unprintable>", "ValueError('v')", ["a"])


@pytest.mark.req("GW-404")
@given(st.text(max_size=40))
def test_a_value_cannot_forge_a_line(value: str) -> None:
    for form in ("json", "text"):
        kept = Lines()
        configure_logs(format=form, level="info", security_log=None, stream=kept.stream)  # type: ignore[reportArgumentType]
        forged = f"{value}\r\n\x1b[2J\u2028 ERROR forged"

        structlog.get_logger().info(forged, name=forged)
        access_log(method="GET", path=forged, route="", status=404, duration_s=0.0, user_agent=forged)

        assert kept.text.count("\n") == 2
        assert "\x1b" not in kept.text


def test_a_forged_stack_stays_behind_its_bar() -> None:
    kept = Lines()
    configure_logs(format="text", level="info", security_log=None, stream=kept.stream)

    structlog.get_logger().error("x", exc_info=ValueError("a\n12:00:00.000 INFO forged\x1b[2J"))

    first, *rest = kept.text.splitlines()
    assert " ERROR " in first
    assert all(line.startswith("    | ") for line in rest)
    assert "\x1b" not in kept.text


def test_auto_is_coloured_text_on_a_terminal_and_json_elsewhere() -> None:
    terminal, pipe = Terminal(), io.StringIO()

    for stream in (terminal, pipe):
        configure_logs(format="auto", level="info", security_log=None, stream=stream)
        access_log(method="GET", path="/v1/x", route="/v1/x", status=200, duration_s=0.0123)

    assert "GET /v1/x 200" in terminal.getvalue()
    assert "12.3ms" in terminal.getvalue()
    assert "\x1b[" in terminal.getvalue()
    assert json.loads(pipe.getvalue())["message"] == "GET /v1/x 200"


def test_a_closed_stream_fails_nobody(lines: Lines) -> None:
    lines.stream.close()

    structlog.get_logger().info("nobody reads this")

    with pytest.raises(ValueError, match="closed"):
        lines.stream.write("x")
