"""gRPC begins with its first client, which notices nothing of that and is known by its own address."""

import asyncio
import socket
from typing import Any

import grpc.aio
import pytest

from dragoman.infra.edge.grpc import GrpcRules, GrpcServer
from dragoman.infra.edge.grpc_on_demand import GrpcOnDemand
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.anyio
HOST, ELSEWHERE = "127.0.0.1", "127.0.0.5"
ANSWER: list[dict[str, Any]] = [
    {"type": "http.response.start", "status": 200, "headers": []},
    {"type": "http.response.body", "body": b"yes"},
]


class Served:
    """A server that answers every call with yes, and notes who called."""

    def __init__(self, *, failures: int = 0) -> None:
        self.clients: list[str] = []
        self.made = 0
        self._failures = failures
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._listener.bind((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.on_demand = GrpcOnDemand(self._listener, self._make)

    def _make(self) -> GrpcServer:
        self.made += 1
        if self.made <= self._failures:
            raise RuntimeError("not this time")
        return GrpcServer(self._answer, GrpcRules(f"{HOST}:{self.port}", (HOST, 80), 1_000_000))

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        self.clients.append(scope["client"][0])
        await receive()
        for message in ANSWER:
            await send(message)


async def call(port: int) -> bytes:
    """The answer to one call, on a channel of its own."""
    async with grpc.aio.insecure_channel(f"{HOST}:{port}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        return await channel.unary_unary("/a/b")(b"well?", timeout=PATIENCE_S)


async def carried(port: int) -> asyncio.Server:
    """A place from which connections go on to the port, as those of a client with another address."""

    async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while piece := await source.read(65_536):
            target.write(piece)
        target.close()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(HOST, port, local_addr=(ELSEWHERE, 0))
        await asyncio.gather(pump(reader, back), pump(there, writer))

    return await asyncio.start_server(carry, HOST, 0)


async def test_the_first_client_is_answered_and_known_by_its_own_address_like_those_that_follow() -> None:
    served = Served()
    served.on_demand.start()
    assert served.made == 0
    async with await carried(served.port) as outside:
        port = outside.sockets[0].getsockname()[1]

        answers = [await call(port), await call(port)]

    await served.on_demand.stop(1)
    assert answers == [b"yes", b"yes"]
    assert served.clients == [ELSEWHERE, ELSEWHERE]
    assert served.made == 1


async def test_clients_that_come_at_once_are_all_answered_by_one_server() -> None:
    served = Served()
    served.on_demand.start()

    answers = await asyncio.gather(*(call(served.port) for _ in range(8)))

    await served.on_demand.stop(1)
    assert answers == [b"yes"] * 8
    assert served.made == 1


async def test_a_server_that_cannot_begin_hangs_up_and_the_next_client_may_have_better_luck() -> None:
    served = Served(failures=1)
    served.on_demand.start()
    reader, writer = await asyncio.open_connection(HOST, served.port)
    assert await reader.read() == b""
    writer.close()

    answer = await call(served.port)

    await served.on_demand.stop(1)
    assert (answer, served.made) == (b"yes", 2)


async def test_a_server_that_nobody_called_ends_without_having_begun() -> None:
    served = Served()
    served.on_demand.start()

    await served.on_demand.stop(1)

    assert served.made == 0
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(HOST, served.port)
