"""A webhook that somebody runs: a real socket that keeps what it is sent, and answers as a test says."""

import json
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.patience import PATIENCE_S


@dataclass(frozen=True, slots=True)
class Notification:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """What it tells."""
        return json.loads(self.body)

    @property
    def state(self) -> str:
        """The state that it tells of; empty when it tells of something else."""
        told = self.json.get("statusUpdate") or self.json
        return told.get("status", {}).get("state", "").removeprefix("TASK_STATE_")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. One that is `held` is given once the event is set."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    held: threading.Event | None = None
    body: bytes = b""


class Receiver:
    """Answers with the replies in turn, then with 200; `received` has every request in the order of arrival."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self._lock = threading.Lock()
        self.received: queue.Queue[Notification] = queue.Queue()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._take))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    def next(self) -> Notification:
        """The next request."""
        return self.received.get(timeout=PATIENCE_S)

    def until(self, state: str) -> list[Notification]:
        """All requests up to the one that tells of this state."""
        told = [self.next()]
        while told[-1].state != state:
            told.append(self.next())
        return told

    def _take(self, notification: Notification) -> Reply:
        with self._lock:
            self.received.put(notification)
            return self._replies.pop(0) if self._replies else Reply()

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.004}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(take: Callable[[Notification], Reply]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            size = int(self.headers.get("content-length", 0))
            body = self.rfile.read(size)
            if len(body) < size:
                return  # the sender was killed in the middle of it
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = take(Notification(self.path, headers, body))
            if reply.held is not None:
                reply.held.wait(PATIENCE_S)
            try:
                self.send_response(reply.status)
                for name, value in {**reply.headers, "content-length": str(len(reply.body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)
            except OSError:
                return  # the sender did not wait so long

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is not ours
            del format, args

    return Handler
