"""A2A over gRPC, by the official stubs. Needs the extra `grpc`."""

from typing import Any, Final

import grpc
from a2a.types import a2a_pb2, a2a_pb2_grpc
from google.protobuf.json_format import MessageToDict, ParseDict

from dragoman.arguments import whole_numbers
from dragoman.parity.doors import Json, Target, message, output_of

_TIMEOUT_S: Final = 60


class A2aGrpc:
    """A2A 1.0 over gRPC."""

    name = "a2a grpc"

    def __init__(self, address: str, target: Target) -> None:
        secure = target.url.startswith("https://")
        channel: Any = (
            grpc.secure_channel(address, grpc.ssl_channel_credentials()) if secure else grpc.insecure_channel(address)
        )
        self._stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)
        self._metadata = [("authorization", f"Bearer {target.token}"), ("a2a-version", "1.0")]

    def call(self, tool: str, arguments: Json) -> Json:
        """Send a message that names it."""
        request = ParseDict({"message": message(tool, arguments)}, a2a_pb2.SendMessageRequest())
        answer = self._stub.SendMessage(request, timeout=_TIMEOUT_S, metadata=self._metadata)
        return output_of(tool, whole_numbers(MessageToDict(answer)["task"]))
