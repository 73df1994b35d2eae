"""A connection that says nothing, never finishes or never stops is ended; one that works is not."""

import asyncio
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import uvicorn

from dragoman.infra.edge import protocol
from dragoman.infra.edge.protocol import HttpProtocol
from tests.backstage import read_all
from tests.harness import wait_for
from tests.patience import PATIENCE_S

ANSWER = [
    {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]},
    {"type": "http.response.body", "body": b"ok"},
]


class Tiny:
    """Answers at once; on `/slow` when it is told to, on `/split` with what is `said`. It never reads a body."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.said = b""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        del receive
        if scope["path"] == "/slow":
            await asyncio.to_thread(self.go_on.wait, 20)
        start, body = ANSWER
        if scope["path"] == "/split":
            length = (b"content-length", b"2")
            start = start | {"headers": [(b"content-type", b"text/plain"), length, (b"x-said", self.said)]}
        await send(dict(start))
        await send(dict(body))


@pytest.fixture
def tiny() -> Tiny:
    return Tiny()


@pytest.fixture
def wire(tiny: Tiny) -> Iterator[socket.socket]:
    """A connection to a server."""
    with connected_to(tiny) as wire:
        yield wire


@pytest.fixture
def hasty(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A connection to a server that is patient for a fifth of a second."""
    monkeypatch.setattr(protocol, "PATIENCE_S", 0.2)
    with connected_to(tiny) as wire:
        yield wire


@contextmanager
def connected_to(tiny: Tiny) -> Generator[socket.socket]:
    config = uvicorn.Config(tiny, http=HttpProtocol, ws="none", lifespan="off", log_config=None)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        wait_for(lambda: running.started, "uvicorn")
        with socket.create_connection(listener.getsockname(), timeout=PATIENCE_S) as connected:
            yield connected
        tiny.go_on.set()
        running.should_exit = True
        thread.join(PATIENCE_S)


@pytest.mark.parametrize("said", [b"", b"G", b"GET / HTTP/1.1\r\nhost: x\r\nx-slow"])
def test_a_head_that_does_not_come_is_not_waited_for(hasty: socket.socket, said: bytes) -> None:
    hasty.sendall(said)

    assert read_all(hasty) == b""


def test_a_second_head_that_does_not_come_is_not_waited_for_either(hasty: socket.socket) -> None:
    hasty.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\nho")

    assert read_all(hasty).count(b"HTTP/1.1 200") == 1


def test_a_slow_answer_is_not_cut_off_by_half_a_head_behind_it(hasty: socket.socket, tiny: Tiny) -> None:
    hasty.sendall(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\nho")
    hasty.settimeout(1)  # five times the server's patience
    with pytest.raises(TimeoutError):
        hasty.recv(1)

    tiny.go_on.set()

    hasty.settimeout(PATIENCE_S)
    assert read_all(hasty).count(b"HTTP/1.1 200") == 1


def test_a_body_that_nobody_reads_cannot_go_on_for_ever(hasty: socket.socket) -> None:
    hasty.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")

    assert read_all(hasty).count(b"HTTP/1.1 200") == 1  # and then the connection ends, though the body has not


def test_requests_one_after_the_other_share_a_connection(wire: socket.socket) -> None:
    for _ in range(3):
        wire.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert wire.recv(65_536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("said", [b"a\r\nset-cookie: b=c", b"a\nset-cookie: b=c", b"a\rset-cookie: b=c", b"a\0b"])
def test_no_header_gets_out_that_would_begin_another(wire: socket.socket, tiny: Tiny, said: bytes) -> None:
    tiny.said = said

    wire.sendall(b"GET /split HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")

    answer = read_all(wire)
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"set-cookie" not in answer
    assert b"\0" not in answer


def test_a_header_that_is_one_gets_out(wire: socket.socket, tiny: Tiny) -> None:
    tiny.said = b"a; b"

    wire.sendall(b"GET /split HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")

    head, _, body = read_all(wire).partition(b"\r\n\r\n")
    assert b"\r\nx-said: a; b\r\n" in head
    assert b"\r\nconnection: close" in head
    assert body == b"ok"


def test_the_server_keeps_an_idle_connection_longer_than_its_clients_do() -> None:
    clients = httpx.Limits().keepalive_expiry
    assert clients is not None
    assert clients < protocol.KEEP_ALIVE_S
