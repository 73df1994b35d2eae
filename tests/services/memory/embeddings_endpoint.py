"""An OpenAI-compatible embeddings endpoint on a socket of its own, whose model knows three ideas."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.patience import PATIENCE_S

_IDEAS = ({"tea", "oolong", "beverage"}, {"lift", "elevator"}, {"salary", "pay"})


class Endpoint:
    """Remembers what it was asked; `letting` is cleared to make it wait with batches, `status` set to refuse."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: set[str] = set()
        self.letting = threading.Event()
        self.letting.set()
        self.status = 200
        self.url = ""

    def answer(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Vectors of twice the length that is kept, in the wrong order; a model of one length refuses another."""
        self.asked.append(asked)
        if self.status != 200:
            return self.status, {"error": {"message": "no"}}
        if "dimensions" in asked and asked["model"] == "rigid":
            return 400, {"error": {"message": "this model has one length"}}
        data = [{"index": place, "embedding": _vector(text)} for place, text in enumerate(asked["input"])]
        return 200, {"data": data[::-1]}


def _vector(text: str) -> list[float]:
    words = set(text.casefold().replace(".", " ").replace("?", " ").split())
    return [float(bool(words & idea)) for idea in _IDEAS] + [0.001] + [0.0] * 764


@contextmanager
def serving() -> Generator[Endpoint]:
    """One that listens until the block ends."""
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            endpoint.keys.add(self.headers["authorization"])
            if not asked["input"][0].endswith("?"):
                endpoint.letting.wait(PATIENCE_S)
            status, answer = endpoint.answer(asked)
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name above
            """Silence."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    endpoint.url = f"http://127.0.0.1:{listening.server_address[1]}/v1"
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.letting.set()
        listening.shutdown()
        listening.server_close()
