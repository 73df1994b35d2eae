"""A2A over gRPC, by the stubs that the protocol's own definition gives."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import grpc
import httpx
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc
from google.rpc import error_details_pb2, status_pb2

from tests.harness import Server
from tests.patience import PATIENCE_S


def address_of(server: Server, **options: Any) -> str:
    """Where the card says that gRPC is spoken."""
    card = httpx.get(f"{server.url}/.well-known/agent-card.json", timeout=PATIENCE_S, **options).json()
    return next(one["url"] for one in card["supportedInterfaces"] if one["protocolBinding"] == "GRPC")


def said(text: str, *, at_once: bool = False, **fields: Any) -> pb.SendMessageRequest:
    """A message in words."""
    message = pb.Message(role=pb.ROLE_USER, message_id=uuid4().hex, parts=[pb.Part(text=text)], **fields)
    return pb.SendMessageRequest(message=message, configuration=pb.SendMessageConfiguration(return_immediately=at_once))


class GrpcCaller:
    """One caller on a channel of its own; metadata is given as keywords, with `_` for `-`."""

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None = None, /, **metadata: str) -> None:
        self._channel = grpc.secure_channel(address, credentials) if credentials else grpc.insecure_channel(address)
        self._stub: Any = a2a_pb2_grpc.A2AServiceStub(self._channel)
        self._metadata = metadata

    def call(self, method: str, request: Any, **metadata: str) -> Any:
        """The answer, or the stream of answers."""
        return getattr(self._stub, method)(request, timeout=PATIENCE_S, metadata=self._with(metadata))

    def headed(self, method: str, request: Any, **metadata: str) -> tuple[Any, dict[str, str]]:
        """The answer of a call that streams nothing, and the metadata before it."""
        answer, call = getattr(self._stub, method).with_call(request, timeout=PATIENCE_S, metadata=self._with(metadata))
        return answer, dict(call.initial_metadata())

    def refusal(self, method: str, request: Any, **metadata: str) -> tuple[grpc.StatusCode, str]:
        """The status of a call that fails, and the reason that its details give."""
        error = refused(lambda: self._drain(self.call(method, request, **metadata)))
        return error.code(), reason_of(error)

    def _drain(self, answer: Any) -> None:
        if hasattr(answer, "__next__"):
            list(answer)

    def _with(self, metadata: dict[str, str]) -> list[tuple[str, str]]:
        return [(name.replace("_", "-"), value) for name, value in (self._metadata | metadata).items()]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()


def refused(act: Callable[[], Any]) -> Any:
    """How a call fails."""
    try:
        act()
    except grpc.RpcError as error:
        return error
    raise AssertionError("the call went well")


def reason_of(error: Any) -> str:
    """Out of the details, as every client in every language finds them."""
    packed = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
    if packed is None:
        return ""
    status = status_pb2.Status.FromString(packed)
    assert status.code == error.code().value[0]
    assert status.message == error.details()
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return info.reason
