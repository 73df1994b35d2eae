"""For programs that cannot be given a token: an address in front of the server that adds it to every request."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.harness import Server


class Bearer:
    """One request a connection; what follows the head is passed on as it is, in both directions."""

    def __init__(self, server: Server, token: str) -> None:
        there = urlsplit(server.url)
        self._there = (there.hostname or "", there.port or 0)
        self._added = f"Authorization: Bearer {token}\r\nConnection: close\r\n".encode()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Closing alone would leave a thread that is in accept() where it is.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near:
            head = b""
            while b"\r\n\r\n" not in head:
                piece = near.recv(65_536)
                if not piece:
                    return
                head += piece
            first, _, rest = head.partition(b"\r\n")
            lines, _, body = rest.partition(b"\r\n\r\n")
            kept = [line for line in lines.split(b"\r\n") if not line.lower().startswith(b"connection:")]
            with socket.create_connection(self._there) as far:
                far.sendall(first + b"\r\n" + self._added + b"\r\n".join(kept) + b"\r\n\r\n" + body)
                there = threading.Thread(target=_pass_on, args=(near, far), daemon=True)
                there.start()
                _pass_on(far, near)
                # The client has its answer; whatever else it meant to say, nobody listens any more.
                with suppress(OSError):
                    near.shutdown(socket.SHUT_RD)
                there.join()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65_536):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
