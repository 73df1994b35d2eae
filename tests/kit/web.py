"""A real HTTP server on a free port of this machine, in a thread; each request gets the next reply of its script."""

import json
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.patience import PATIENCE_S

Reply = Callable[["Handler"], None]


@dataclass
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Handler(BaseHTTPRequestHandler):
    web: "Web"
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(length)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.web.seen.append(Seen(self.command, self.path, headers, json.loads(raw) if raw else None))
        self.web.script.pop(0)(self)

    def do_POST(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 the name of the base class
        pass


def free_port() -> int:
    """A port that nobody listens on."""
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def answer(status: int, body: bytes | str | dict[str, Any], **headers: str) -> Reply:
    def reply(handler: Handler) -> None:
        data = json.dumps(body).encode() if isinstance(body, dict) else body.encode() if isinstance(body, str) else body
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return reply


def events(*lines: str | dict[str, Any]) -> Reply:
    """A stream of server-sent events that ends by closing the connection."""

    def reply(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("connection", "close")
        handler.end_headers()
        with suppress(ConnectionError):  # a reader may leave in the middle
            for line in lines:
                handler.wfile.write(f"data: {line if isinstance(line, str) else json.dumps(line)}\n\n".encode())
        handler.close_connection = True

    return reply


def hang(handler: Handler) -> None:
    """Say nothing until the test is over."""
    handler.web.over.wait(PATIENCE_S)
    handler.close_connection = True


def drip(handler: Handler) -> None:
    """Promise a long answer and give it a blank at a time, so that the reader never waits long for the next."""
    handler.send_response(200)
    handler.send_header("content-length", "1000000")
    handler.end_headers()
    with suppress(ConnectionError):
        while not handler.web.over.wait(0.01):
            handler.wfile.write(b" ")
    handler.close_connection = True


def drop(handler: Handler) -> None:
    """Close the connection without a word."""
    handler.close_connection = True


@dataclass
class Web:
    script: list[Reply] = field(default_factory=list[Reply])
    seen: list[Seen] = field(default_factory=list[Seen])
    over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        handler = type("BoundHandler", (Handler,), {"web": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"
