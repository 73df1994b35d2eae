"""HTTP/1.1 as uvicorn speaks it, with bounds on what a stranger can make it hold before there is a request.

uvicorn takes a head of any length, waits for its end for ever, and answers what is no HTTP in plain text.
"""

import asyncio
from typing import Any, Final, cast

import structlog
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from dragoman.errors import DragomanError, InvalidInput
from dragoman.infra.edge.problem import SECURITY_HEADERS, problem
from dragoman.infra.ids import new_id

MAX_HEAD_BYTES: Final = 65_536
# For a head to arrive once it has begun, for a connection to say anything, for a refused body to end.
PATIENCE_S: Final = 10.0
# Longer than clients and load balancers keep an idle connection (httpx 5 s, most balancers 60 s). The one who would
# send next must be the one who closes, or a request meets a connection that is just being closed.
KEEP_ALIVE_S: Final = 75

_LOG = structlog.get_logger(__name__)


class _OneWrite:
    """A transport that sends the head and the body of a response in one system call instead of two."""

    __slots__ = ("_loop", "_parts", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Sent with whatever else is written in this turn of the loop."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Send what is left, then close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._parts:
            parts, self._parts = self._parts, []
            self._transport.write(b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _Cycle(RequestResponseCycle):
    """A request and its response, whose head is checked as a whole: uvicorn looks at each of fifteen headers twice."""

    async def send(self, message: Any) -> None:
        if self.response_started or self.flow.write_paused or self.disconnected or not _is_plain(message):
            await super().send(message)
            return
        headers = [*self.default_headers, *message["headers"]]
        head = b"".join([b"%b: %b\r\n" % header for header in headers])
        if b"connection: " in head or b"transfer-encoding: " in head:
            await super().send(message)
            return
        if head.count(b"\n") != len(headers) or head.count(b"\r") != len(headers) or b"\0" in head:
            # Each header is one line: nothing that came from outside may have begun another.
            raise RuntimeError("a header holds what no header may hold")
        self.response_started = True
        self.waiting_for_100_continue = False
        self.chunked_encoding = False
        self.expected_content_length = int(message["headers"][1][1])
        closing = b"" if self.keep_alive else b"connection: close\r\n"
        self.transport.write(STATUS_LINE[message["status"]] + head + closing + b"\r\n")


def _is_plain(message: Any) -> bool:
    """Whether it begins a response as nearly all do: with a type, then its length."""
    headers = message.get("headers", ())
    return message["type"] == "http.response.start" and len(headers) > 1 and headers[1][0] == b"content-length"


class HttpProtocol(HttpToolsProtocol):
    """One connection."""

    _in_head = False
    _head_bytes = 0
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Expect a request soon."""
        super().connection_made(transport)
        self.transport = cast("asyncio.Transport", _OneWrite(transport, self.loop))
        self._patience = self.loop.call_later(PATIENCE_S, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is expected any more."""
        self._be_at_ease()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Watch the head; nearly all come in one piece, and cost nothing here."""
        super().data_received(data)
        if not self._in_head:
            self._head_bytes = 0
            self._be_at_ease()
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(InvalidInput.of("headers", f"must not exceed {MAX_HEAD_BYTES} bytes in all"))
        elif self._patience is None:
            self._patience = self.loop.call_later(PATIENCE_S, self._give_up)

    def on_message_begin(self) -> None:
        """A head begins. Who is connected is kept: behind a proxy, `client` is who the proxy says."""
        super().on_message_begin()
        self.scope["extensions"] = {"peer": self.client}  # pyright: ignore[reportGeneralTypeIssues]
        self._in_head = True

    def on_headers_complete(self) -> None:
        """The head is read, and the request begins."""
        self._in_head = False
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        cycle.__class__ = _Cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """A body that nobody reads may end by itself, but not take for ever."""
        super().on_response_complete()
        if self.cycle.more_body:
            self.loop.call_later(PATIENCE_S, self._end_unread, self.cycle)

    def send_400_response(self, msg: str) -> None:
        """What cannot be parsed gets the same kind of answer as everything else."""
        del msg
        self._refuse(InvalidInput.of("request", "must be HTTP/1.1"))

    def _refuse(self, error: DragomanError) -> None:
        request_id = str(new_id())
        _LOG.warning("request.malformed", request_id=request_id, ip=self.client[0] if self.client else "")
        # A response that is under way must not get another one into its middle.
        if not self._is_serving():
            status, headers, body = problem(error, request_id)
            headers += [*self.server_state.default_headers, *SECURITY_HEADERS]
            headers += [(b"x-request-id", request_id.encode()), (b"connection", b"close")]
            lines = b"".join(b"%b: %b\r\n" % header for header in headers)
            self.transport.write(STATUS_LINE[status] + lines + b"\r\n" + body)
        self.transport.close()

    def _give_up(self) -> None:
        if self._is_serving():  # the head behind it in the pipeline has to wait
            self._patience = self.loop.call_later(PATIENCE_S, self._give_up)
        else:
            self.transport.close()

    def _end_unread(self, cycle: object) -> None:
        if self.cycle is cycle:
            self.transport.close()

    def _be_at_ease(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _is_serving(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete
