"""gRPC that begins with its first client: the library takes a tenth of the memory of an idle server.

Until then this process listens itself. The library opens its own sockets and takes no connection that another has
accepted, so those that come before it listens are relayed to it, and keep the address of their client. All that come
later go to it directly.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.infra.edge.grpc import GrpcServer

_LOG = structlog.get_logger(__name__)
_PIECE_BYTES: Final = 65_536


class GrpcOnDemand:
    """Listens for the first client, then makes the server; `listener` shares its address with that."""

    def __init__(self, listener: socket.socket, make: Callable[[], GrpcServer]) -> None:
        self._listener = listener
        self._make = make
        self._server: GrpcServer | None = None
        self._opening: asyncio.Task[None] | None = None
        self._relays: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Wait for the first client."""
        self._listener.settimeout(0)
        self._listener.listen()
        asyncio.get_running_loop().add_reader(self._listener, self._begin)

    async def stop(self, drain_s: float) -> None:
        """Take no more calls, and end those that are not done in time."""
        if self._opening is not None:
            await self._opening
        if self._listener.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
        if self._server is not None:
            await self._server.stop(drain_s)
        for relay in self._relays:
            relay.cancel()

    def _begin(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listener)
        self._opening = asyncio.create_task(self._open())

    async def _open(self) -> None:
        try:
            server = await asyncio.to_thread(self._make)  # the import takes longer than others should wait
            await server.start()
        except Exception:  # noqa: BLE001 - an edge: the next client may have better luck, and this one is hung up on
            _LOG.exception("grpc.not_started")
            for client in self._waiting():
                client.close()
            asyncio.get_running_loop().add_reader(self._listener, self._begin)
            return
        self._server = server
        for client in self._waiting():
            relay = asyncio.create_task(_relay(client, server))
            self._relays.add(relay)
            relay.add_done_callback(self._relays.discard)
        self._listener.close()

    def _waiting(self) -> list[socket.socket]:
        clients: list[socket.socket] = []
        with suppress(BlockingIOError):
            while True:
                clients.append(self._listener.accept()[0])
        return clients


async def _relay(client: socket.socket, server: GrpcServer) -> None:
    """Carry the bytes of a connection to the server and back, until both sides have ended."""
    with closing(client), suppress(OSError):
        client.settimeout(0)
        address = client.getpeername()[:2]
        from_client, to_client = await asyncio.open_connection(sock=client)
        from_server, to_server = await asyncio.open_connection(*server.relay_address)
        with closing(to_client), closing(to_server), server.relayed(to_server.get_extra_info("sockname"), address):
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(from_client, to_server))
                both.create_task(_pump(from_server, to_client))


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await source.read(_PIECE_BYTES):
            target.write(piece)
            await target.drain()
    target.close()
