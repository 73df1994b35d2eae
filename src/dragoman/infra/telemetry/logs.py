"""One line an event, the same for our code and for every library: JSON for machines, text for a terminal.

    structlog ──┐
    logging   ──┼─> LogOutput: request fields > JSON > redaction > stream  (and the security file)
    access_log ─┘

The field names are those that Cloud Logging reads without configuration.
"""

import logging
import sys
import traceback
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from time import time_ns
from types import TracebackType
from typing import Any, BinaryIO, Final, Literal, TextIO, cast
from uuid import UUID

import orjson
import structlog

from dragoman.context import RequestContext, current_request
from dragoman.infra.telemetry.encoding import encode
from dragoman.infra.telemetry.files import AppendFile
from dragoman.infra.telemetry.redaction import redact_line
from dragoman.infra.telemetry.terminal import render

LogFormat = Literal["auto", "json", "text"]

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "warn": 30, "error": 40, "exception": 40, "critical": 50}
_SEVERITIES: Final = {10: "DEBUG", 20: "INFO", 30: "WARNING", 40: "ERROR", 50: "CRITICAL"}
# No secret can be written with these.
# They say on INFO what our own lines say better, or what is said elsewhere.
_QUIET: Final = ("uvicorn.access", "httpx", "httpcore", "asyncio", "urllib3")


class LogOutput:
    """Where the lines of this process go, and how they look there."""

    def __init__(self, stream: TextIO, *, text: bool, level: int, security: AppendFile | None = None) -> None:
        self.level = level
        self._stream = stream
        self._buffer: BinaryIO | None = getattr(stream, "buffer", None)
        self._text = text
        self._colour = text and stream.isatty()
        self._security = security

    def emit(self, level: int, message: str, fields: dict[str, Any]) -> None:
        """Write one event; it never raises, since nobody's request may fail because of its log."""
        event = {"severity": _severity(level), "time": _now(), "message": message}
        _add_request(event)
        event.update(fields)
        line = redact_line(encode(event))
        if self._security is not None and event.get("stream") == "security":
            self._record(self._security, line)
        if level >= self.level:
            self.write(line)

    def close(self) -> None:
        """Close the security file; the stream belongs to the caller."""
        if self._security is not None:
            self._security.close()

    def _record(self, file: AppendFile, line: bytes) -> None:
        try:
            file.append(line)
        except OSError as error:
            # The event itself is in the normal log; that the file lacks it must be seen there too.
            failure = {"severity": "ERROR", "time": _now(), "message": "security log not written"}
            self.write(encode({**failure, "error": type(error).__name__, "errno": error.errno}))

    def write(self, line: bytes) -> None:
        """Write one line of JSON, in which no secret is left."""
        if self._text:
            line = render(orjson.loads(line), colour=self._colour).encode()
        try:
            if self._buffer is not None:
                self._buffer.write(line + b"\n")
                self._buffer.flush()
            else:
                self._stream.write(line.decode() + "\n")
        except (OSError, ValueError):
            return  # a closed pipe has no reader to tell


_second = (0, "1970-01-01T00:00:00")
_output = LogOutput(sys.stderr, text=False, level=logging.INFO)
# Set where several servers share a process; everything that such a server starts inherits its context.
_ROUTED: ContextVar[LogOutput | None] = ContextVar("dragoman_log_output", default=None)


def configure_logs(
    *,
    format: LogFormat,  # noqa: A002 - the name of the setting
    level: str,
    security_log: Path | None,
    stream: TextIO | None = None,
) -> LogOutput:
    """Send every log line of this process to `stream` (stderr unless told); a second call replaces the first.

    `auto` is text on a terminal and JSON elsewhere. Events of the stream "security" also go to `security_log`, as
    JSON and at every level.
    """
    global _output  # noqa: PLW0603 - a process has one log, as it has one stderr
    target = stream or sys.stderr
    number = _LEVELS[level.lower()]
    text = format == "text" or (format == "auto" and target.isatty())
    _output.close()
    _output = LogOutput(target, text=text, level=number, security=AppendFile(security_log) if security_log else None)
    _take_over_structlog(number)
    _take_over_standard_logging(number, _Bridge())
    return _output


def route_logs(output: LogOutput) -> None:
    """Send the log lines of the current context, and of all that it starts, to `output`.

    For a server that shares its process with others; lines of the rest of the process go where they went before.
    """
    _ROUTED.set(output)
    if not structlog.is_configured():
        _take_over_structlog(logging.DEBUG)
    if not any(isinstance(handler, _Bridge) for handler in logging.getLogger().handlers):
        _take_over_standard_logging(logging.INFO, _Bridge(routed_only=True))


def emit(level: int, message: str, fields: dict[str, Any]) -> None:
    """Write one event to the log of this process, past structlog: for callers that count microseconds."""
    _current().emit(level, message, fields)


def _current() -> LogOutput:
    return _ROUTED.get() or _output


def access_log(  # noqa: PLR0913 - the edge calls it once a request with all it knows
    *,
    method: str,
    path: str,
    route: str,
    status: int,
    duration_s: float,
    ip: str = "",
    user_agent: str = "",
    request_bytes: int | None = None,
    response_bytes: int | None = None,
) -> None:
    """The one line of a finished request. The query string is dropped: it is where people put tokens."""
    level = logging.INFO if status < 500 else logging.WARNING
    output = _current()
    if level < output.level:
        return
    request = current_request()
    caller = request.caller if request is not None else None
    frame = _frame(
        _severity(level),
        method,
        path.partition("?")[0][:1024],
        route,
        status,
        ip,
        user_agent[:256],
        (caller.tenant_slug, caller.tenant, caller.subject) if caller is not None else None,
    )
    sizes = b"" if request_bytes is None else b',"requestSize":"%d"' % request_bytes
    if response_bytes is not None:
        sizes += b',"responseSize":"%d"' % response_bytes
    own = _own_fields(request) if request is not None else b""
    output.write(
        b'%b"time":"%b",%b%b,"latency":"%.6fs"%b}}' % (frame[0], _now().encode(), own, frame[1], duration_s, sizes)
    )


@lru_cache(maxsize=1024)
def _frame(
    severity: str,
    method: str,
    url: str,
    route: str,
    status: int,
    ip: str,
    agent: str,
    caller: tuple[str, UUID, str] | None,
) -> tuple[bytes, bytes]:
    """What the lines of alike requests have in common, before and behind what is each one's own; without secrets."""
    event: dict[str, Any] = {"message": f"{method} {url} {status}"}
    if caller is not None:
        event["tenant"], event["tenant_id"], event["subject"] = caller[0], str(caller[1]), caller[2]
    event["route"] = route
    event["httpRequest"] = {
        "requestMethod": method,
        "requestUrl": url,
        "status": status,
        "remoteIp": ip,
        "userAgent": agent,
    }
    line = redact_line(encode(event))
    return b'{"severity":"%b",' % severity.encode(), line[1:-2]


def _own_fields(request: RequestContext) -> bytes:
    if not request.correlation_id and not getattr(request.span, "trace_id", ""):
        return b'"request_id":"%b",' % request.id.encode()
    fields: dict[str, Any] = {}
    _add_request(fields, with_caller=False)
    return redact_line(encode(fields))[1:-1] + b","


class _Named:
    """What structlog holds as its logger: only the name matters, the line is written by the processor."""

    def __init__(self, name: str = "") -> None:
        self.name = name


def _from_structlog(logger: Any, method: str, event: Any) -> Any:
    fields = cast("dict[str, Any]", event)
    message = str(fields.pop("event", ""))
    stack = _stack_of(fields.pop("exc_info", None))
    fields.pop("stack_info", None)
    if stack:
        fields["stack_trace"] = stack
    if isinstance(logger, _Named) and logger.name:
        fields["logger"] = logger.name
    _current().emit(_LEVELS.get(method, logging.INFO), message, fields)
    raise structlog.DropEvent


class _Bridge(logging.Handler):
    """Takes the records of the standard library into the same output."""

    def __init__(self, *, routed_only: bool = False) -> None:
        super().__init__()
        self._routed_only = routed_only

    def emit(self, record: logging.LogRecord) -> None:
        if self._routed_only and _ROUTED.get() is None:
            return
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # a library's format string and its arguments disagree
            message = f"{record.msg} {record.args}"
        fields: dict[str, Any] = {"logger": record.name}
        stack = _stack_of(record.exc_info)
        if stack:
            fields["stack_trace"] = stack
        _current().emit(record.levelno, message, fields)


def _take_over_structlog(level: int) -> None:
    structlog.configure(
        processors=[_from_structlog],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_Named,
        cache_logger_on_first_use=False,
    )


def _take_over_standard_logging(level: int, bridge: _Bridge) -> None:
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Bridge)]:
        root.removeHandler(handler)
    root.addHandler(bridge)
    root.setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def _add_request(event: dict[str, Any], *, with_caller: bool = True) -> None:
    request = current_request()
    if request is None:
        return
    event["request_id"] = request.id
    if request.correlation_id:
        event["correlation_id"] = request.correlation_id
    caller = request.caller
    if caller is not None and with_caller:
        event["tenant"] = caller.tenant_slug
        # The driver's ids are no plain UUIDs, and the encoder would ask how to write each.
        event["tenant_id"] = str(caller.tenant)
        event["subject"] = caller.subject
    span = request.span
    if span is not None and span.trace_id:
        event["logging.googleapis.com/trace"] = span.trace_id
        event["logging.googleapis.com/spanId"] = span.span_id


def _now() -> str:
    global _second  # noqa: PLW0603 - formatting the date anew for every line costs more than writing the line
    second, micros = divmod(time_ns() // 1000, 1_000_000)
    known = _second
    if known[0] != second:
        known = _second = (second, datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S"))
    return f"{known[1]}.{micros:06d}Z"


def _severity(level: int) -> str:
    return _SEVERITIES.get(level) or _SEVERITIES[min(max(level // 10, 1), 5) * 10]


# Whatever `exc_info=` may be, here and in the standard library.
ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
GivenError = ExcInfo | BaseException | bool | None


def _stack_of(given: GivenError) -> str:
    error: BaseException | None
    if isinstance(given, BaseException):
        error = given
    elif isinstance(given, tuple):
        error = given[1]
    else:
        error = sys.exc_info()[1] if given else None
    return "".join(traceback.format_exception(error)) if error is not None else ""
