"""The official Python client of A2A, told who asks."""

from contextlib import AsyncExitStack
from typing import Any
from uuid import uuid4

import grpc.aio
import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.client.client import ClientCallContext
from a2a.types import a2a_pb2 as pb

from tests.harness import Server
from tests.patience import PATIENCE_S

BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"]


class Caller:
    """The official client, with what it needs to say who asks."""

    def __init__(self, client: Any, token: str) -> None:
        self.client = client
        self.context = ClientCallContext(service_parameters={"authorization": f"Bearer {token}"})

    async def events(self, request: pb.SendMessageRequest) -> list[pb.StreamResponse]:
        """All that a message is answered with."""
        return [event async for event in self.client.send_message(request, context=self.context)]

    async def task(self, request: pb.SendMessageRequest) -> pb.Task:
        """The task that a message became."""
        request.configuration.accepted_output_modes.append("text/plain")
        [answer] = await self.events(request)
        return answer.task


class open_client:  # noqa: N801 - used as the function that it stands for
    """A client that takes the server's card at its word."""

    def __init__(self, server: Server, binding: str, *, streaming: bool, token: str | None = None) -> None:
        self._server, self._binding, self._streaming = server, binding, streaming
        self._token = server.token() if token is None else token
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Caller:
        http = await self._stack.enter_async_context(httpx.AsyncClient(timeout=PATIENCE_S))
        config = ClientConfig(
            httpx_client=http,
            supported_protocol_bindings=[self._binding],
            streaming=self._streaming,
            grpc_channel_factory=grpc.aio.insecure_channel,
        )
        client = await ClientFactory(config).create_from_url(self._server.url)
        self._stack.push_async_callback(client.close)
        return Caller(client, self._token)

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()


def said(text: str, **fields: Any) -> pb.SendMessageRequest:
    """A message in words."""
    message = pb.Message(role=pb.ROLE_USER, message_id=uuid4().hex, parts=[pb.Part(text=text)], **fields)
    return pb.SendMessageRequest(message=message)
