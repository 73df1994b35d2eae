"""gRPC in front of an ASGI application: a call is a request, its messages are the pieces of a body.

The guards of the edge then hold for both, because there is one edge. Needs the extra `grpc`.
"""

from __future__ import annotations

import ipaddress
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

# What gRPC does in a child between fork and exec crashes some of the programs that this process starts (exit -11).
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

import grpc
import grpc.aio

from dragoman.infra.edge.protocol import MAX_HEAD_BYTES, PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from dragoman.infra.edge.edge import AsgiApp, AsgiScope, Message

_BEAT_MS: Final = 20_000
_MOST_STREAMS: Final = 1000
_CODES: Final = {str(code.value[0]).encode(): code for code in grpc.StatusCode}
_LOCAL: Final = "127.0.0.1"
Metadata = tuple[tuple[str, str | bytes], ...]
Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class GrpcRules:
    """Where to listen and what to let in; without a certificate it is plain HTTP/2."""

    address: str
    home: tuple[str, int]
    max_message_bytes: int
    certificate: Path | None = None
    key: Path | None = None


class GrpcServer(grpc.GenericRpcHandler):
    """Takes every call, of whatever name: which there are is for the application to say."""

    def __init__(self, app: AsgiApp, rules: GrpcRules) -> None:
        self._app = app
        self._rules = rules
        self._server: grpc.aio.Server | None = None
        self.relay_address = _LOCAL, 0
        self._clients: dict[Address, Address] = {}

    async def start(self) -> None:
        """Listen; several processes may share the address. What this process relays comes in at a port of its own."""
        server = grpc.aio.server(
            options=[
                ("grpc.so_reuseport", 1),
                ("grpc.max_receive_message_length", self._rules.max_message_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_metadata_size", MAX_HEAD_BYTES),
                ("grpc.absolute_max_metadata_size", MAX_HEAD_BYTES),
                ("grpc.max_concurrent_streams", _MOST_STREAMS),
                ("grpc.server_handshake_timeout_ms", int(PATIENCE_S * 1000)),
                ("grpc.keepalive_time_ms", _BEAT_MS),
            ]
        )
        server.add_generic_rpc_handlers([self])
        credentials = self._credentials()
        for address in (self._rules.address, f"{_LOCAL}:0"):
            if credentials is None:
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, credentials)
        self.relay_address = _LOCAL, port
        await server.start()
        self._server = server

    async def stop(self, drain_s: float) -> None:
        """Take no more calls, and end those that are not done in time."""
        if self._server is not None:
            await self._server.stop(drain_s)
            self._server = None

    @contextmanager
    def relayed(self, relay: Address, client: Address) -> Generator[None]:
        """Let calls from the address of a relay be those of its client meanwhile."""
        self._clients[relay] = client
        try:
            yield
        finally:
            del self._clients[relay]

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        """Every method reads and writes as many messages as it likes: on the wire there is no difference."""
        call = handler_call_details

        async def serve(_: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
            exchange = _Exchange(context)
            await self._app(self._scope(call, context.peer()), exchange.receive, exchange.send)
            await exchange.end()

        return grpc.stream_stream_rpc_method_handler(serve)

    def _scope(self, call: grpc.HandlerCallDetails, peer: str) -> AsgiScope:
        given = call.invocation_metadata or ()
        headers = [(name.encode(), value.encode("latin-1")) for name, value in given if isinstance(value, str)]
        path = call.method
        return {
            "type": "http",
            "http_version": "2",
            "method": "POST",
            "scheme": "https" if self._rules.certificate else "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": headers,
            "client": self._clients.get(address, address) if (address := _address_of(peer)) else None,
            "server": self._rules.home,
        }

    def _credentials(self) -> grpc.ServerCredentials | None:
        if self._rules.certificate is None or self._rules.key is None:
            return None
        return grpc.ssl_server_credentials([(self._rules.key.read_bytes(), self._rules.certificate.read_bytes())])


class _Exchange:
    """One call. A response that says `grpc-status` in its head or its trailers ends with that."""

    __slots__ = ("_context", "_status", "_trailers")

    def __init__(self, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        self._context = context
        self._status: grpc.StatusCode | None = None
        self._trailers: list[tuple[bytes, bytes]] = []

    async def receive(self) -> Message:
        """The message of the call; the edge has let its sender in by then."""
        message: Any = await self._context.read()
        # The end of a call without a message is an object of the library's own.
        body = message if isinstance(message, bytes) else b""
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        """A piece of the response."""
        if message["type"] == "http.response.body":
            if self._status is None and (message.get("more_body") or message.get("body")):
                await self._context.write(message["body"])
            return
        headers: list[tuple[bytes, bytes]] = list(message["headers"])
        given = dict(headers).get(b"grpc-status")
        if given is None:
            await self._context.send_initial_metadata(_metadata(headers))
        else:
            self._status = _CODES[given]
            self._trailers = headers

    async def end(self) -> None:
        """Say how it ended."""
        if self._status is None:
            return
        told = dict(self._trailers).get(b"grpc-message", b"").decode()
        with suppress(grpc.aio.AbortError):
            await self._context.abort(self._status, told, _metadata(self._trailers))


def _metadata(headers: list[tuple[bytes, bytes]]) -> Metadata:
    shown: list[tuple[str, str | bytes]] = []
    for name, value in headers:
        if name not in (b"grpc-status", b"grpc-message"):
            shown.append((name.decode(), value if name.endswith(b"-bin") else value.decode("latin-1")))
    return tuple(shown)


def _address_of(peer: str) -> Address | None:
    """Of `ipv4:127.0.0.1:5` or `ipv6:%5B::1%5D:5`."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    try:
        return str(ipaddress.ip_address(host.strip("[]"))), int(port)
    except ValueError:
        return None
