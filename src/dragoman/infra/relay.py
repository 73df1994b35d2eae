"""A way out for a library that resolves names by itself: it is sent to a port of this process, which dials for it.

The relay knows one host and the addresses that were judged for it. It resolves nothing, so that no second answer of a
name server can lead elsewhere. TLS and SSH go through it untouched: who is at the other end is checked by the library.
A host that says nothing for `silence_s` is hung up on, whatever the library would wait for.
Programs of this machine could use the port too, and would reach what they can reach without it.
"""

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

_MOST_TRIED: Final = 3
_LONGEST_HEAD: Final = 8192
_PIECE: Final = 65_536


class Relay:
    """Carries connections to one port of the addresses. With `host` it is a proxy of HTTP for that host alone."""

    def __init__(self, addresses: Sequence[str], port: int, *, host: str | None, silence_s: float) -> None:
        self._addresses = tuple(addresses[:_MOST_TRIED])
        self._port = port
        self._silence_s = silence_s
        name = f"[{host}]" if host is not None and ":" in host else host
        self._target = None if name is None else f"{name}:{port}".lower()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._sockets: set[socket.socket] = {self._listening}
        self._lock = threading.Lock()
        self._closed = False

    @property
    def port(self) -> int:
        """Where to connect to, on 127.0.0.1."""
        return self._listening.getsockname()[1]

    def dial(self) -> socket.socket | None:
        """Connect to the first address that answers; None when none does."""
        for address in self._addresses:
            with suppress(OSError):
                # A literal address: nothing is looked up.
                return socket.create_connection((address, self._port), timeout=self._silence_s)
        return None

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._closed = True
            sockets, self._sockets = self._sockets, set()
        for each in sockets:
            _shut(each)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        if not self._keep(near):
            return
        with suppress(OSError):
            if self._target is not None and _read_connect(near) != self._target:
                near.sendall(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
            elif (far := self.dial()) is None:
                if self._target is not None:
                    near.sendall(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")
            elif self._keep(far):
                if self._target is not None:
                    near.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                back = threading.Thread(target=_pump, args=(far, near), daemon=True)
                back.start()
                _pump(near, far)
                back.join()
                self._drop(far)
        self._drop(near)

    def _keep(self, opened: socket.socket) -> bool:
        """Note a socket, to be closed with the relay; False when the relay is closed."""
        with self._lock:
            if not self._closed:
                self._sockets.add(opened)
                return True
        _shut(opened)
        return False

    def _drop(self, opened: socket.socket) -> None:
        with self._lock:
            self._sockets.discard(opened)
        _shut(opened)


def _read_connect(near: socket.socket) -> str | None:
    """Return the host and port that a CONNECT names; None for anything else."""
    head = b""
    while b"\r\n\r\n" not in head:
        piece = near.recv(_PIECE)
        head += piece
        if not piece or len(head) > _LONGEST_HEAD:
            return None
    words = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
    return words[1].lower() if len(words) == 3 and words[0] == "CONNECT" else None


def _pump(source: socket.socket, sink: socket.socket) -> None:
    how = socket.SHUT_WR
    try:
        while piece := source.recv(_PIECE):
            sink.sendall(piece)
    except OSError:
        how = socket.SHUT_RDWR
    with suppress(OSError):
        sink.shutdown(how)


def _shut(opened: socket.socket) -> None:
    # A thread that waits in it wakes up by the shutdown, not by the close.
    with suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)
    opened.close()
