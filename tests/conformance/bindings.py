"""The bindings of A2A behind one call: a method and its params go out, an answer comes back, closely read."""

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any, Protocol
from urllib.parse import quote

import grpc
import httpx
from a2a.types import a2a_pb2
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass
from google.rpc import status_pb2

from tests.conformance.reading import read_error, read_message, read_result
from tests.doors.a2a.calling import sse
from tests.patience import PATIENCE_S

VERSION = {"a2a-version": "1.0"}


@dataclass(frozen=True)
class Answer:
    """What came back: a result, an error, or the events of a stream."""

    status: int
    headers: dict[str, str]
    result: Any = None
    error: dict[str, Any] | None = None
    events: Iterator[Any] = field(default_factory=lambda: iter(()))


class Binding(Protocol):
    """One way to carry a call. A further binding is one more class, and its name in BINDINGS."""

    def ask(
        self, http: httpx.Client, method: str, params: dict[str, Any], headers: dict[str, str]
    ) -> AbstractContextManager[Answer]:
        """Call; a stream is open for as long as the answer is."""
        ...


class JsonRpc:
    """JSON-RPC: one address, the method in the body, errors in the answer of a request that went well."""

    @contextmanager
    def ask(self, http: httpx.Client, method: str, params: Any, headers: dict[str, str]) -> Generator[Answer]:
        """Call."""
        body = {"jsonrpc": "2.0", "id": "v-1", "method": method, "params": params}
        with http.stream("POST", "/a2a", json=body, headers=VERSION | headers) as response:
            yield self._read(method, response)

    def _read(self, method: str, response: httpx.Response) -> Answer:
        head = dict(response.headers)
        if _streams(response):
            return Answer(response.status_code, head, events=self._events(method, response))
        response.read()
        if response.status_code != 200:
            return Answer(response.status_code, head, error={**response.json(), "code": response.status_code})
        body = _envelope(response.json())
        if "error" in body:
            return Answer(200, head, error=read_error(body["error"], details="data"))
        return Answer(200, head, result=read_result(method, body["result"]))

    def _events(self, method: str, response: httpx.Response) -> Iterator[Any]:
        for _, body in sse(response):
            yield read_result(method, _envelope(body)["result"])


class HttpJson:
    """HTTP+JSON: the method in verb and address, errors by the status of HTTP."""

    ADDRESSES = {
        "SendMessage": ("POST", "/message:send"),
        "SendStreamingMessage": ("POST", "/message:stream"),
        "GetTask": ("GET", "/tasks/{id}"),
        "ListTasks": ("GET", "/tasks"),
        "CancelTask": ("POST", "/tasks/{id}:cancel"),
        "SubscribeToTask": ("GET", "/tasks/{id}:subscribe"),
        "GetExtendedAgentCard": ("GET", "/extendedAgentCard"),
        "CreateTaskPushNotificationConfig": ("POST", "/tasks/{taskId}/pushNotificationConfigs"),
        "ListTaskPushNotificationConfigs": ("GET", "/tasks/{taskId}/pushNotificationConfigs"),
        "GetTaskPushNotificationConfig": ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
        "DeleteTaskPushNotificationConfig": ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    }

    @contextmanager
    def ask(
        self, http: httpx.Client, method: str, params: dict[str, Any], headers: dict[str, str]
    ) -> Generator[Answer]:
        """Call."""
        verb, address = self.ADDRESSES[method]
        in_path = {name: quote(str(value), safe="") for name, value in params.items() if f"{{{name}}}" in address}
        others = {name: value for name, value in params.items() if name not in in_path}
        options: dict[str, Any] = {"json": others} if verb == "POST" else {"params": _query(others)}
        url = "/a2a/rest" + address.format(**in_path)
        with http.stream(verb, url, headers=VERSION | headers, **options) as response:
            yield self._read(method, response)

    def _read(self, method: str, response: httpx.Response) -> Answer:
        head = dict(response.headers)
        if _streams(response):
            events = (read_result(method, event) for _, event in sse(response))
            return Answer(response.status_code, head, events=events)
        response.read()
        body = response.json()
        if response.is_success:
            return Answer(response.status_code, head, result=read_result(method, body))
        if "error" not in body:  # the edge refuses before the protocol is asked
            return Answer(response.status_code, head, error={**body, "code": response.status_code})
        assert body["error"]["code"] == response.status_code
        return Answer(response.status_code, head, error=read_error(body["error"], details="details"))


class Grpc:
    """gRPC: the protocol's own messages, headers as metadata, errors as a google.rpc.Status.

    Where it is served is read off the card.
    """

    SERVICE = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]

    @contextmanager
    def ask(
        self, http: httpx.Client, method: str, params: dict[str, Any], headers: dict[str, str]
    ) -> Generator[Answer]:
        """Call."""
        described = self.SERVICE.methods_by_name[method]
        asked, answered = GetMessageClass(described.input_type), GetMessageClass(described.output_type)
        sent = {**VERSION, "authorization": http.headers.get("authorization", ""), **headers}
        metadata = tuple((name.lower(), value) for name, value in sent.items() if value)
        with grpc.insecure_channel(_grpc_address(str(http.base_url))) as channel:
            call: Any = channel.unary_stream(
                f"/{self.SERVICE.full_name}/{method}",
                request_serializer=asked.SerializeToString,
                response_deserializer=answered.FromString,
            )(ParseDict(params, asked()), metadata=metadata, timeout=PATIENCE_S)
            yield self._read(method, call)

    def _read(self, method: str, call: Any) -> Answer:
        messages = (read_result(method, read_message(message)) for message in call)
        try:
            first = next(messages, None)
        except grpc.RpcError:
            return Answer(200, _ending(call), error=_status(call))
        if not self.SERVICE.methods_by_name[method].server_streaming:
            return Answer(200, _ending(call), result=first)
        head = dict(call.initial_metadata())
        return Answer(200, head, events=messages if first is None else chain([first], messages))


BINDINGS: dict[str, Binding] = {"jsonrpc": JsonRpc(), "http+json": HttpJson(), "grpc": Grpc()}


@cache
def _grpc_address(url: str) -> str:
    card = httpx.get(f"{url.rstrip('/')}/.well-known/agent-card.json", timeout=PATIENCE_S).json()
    return next(one["url"] for one in card["supportedInterfaces"] if one["protocolBinding"] == "GRPC")


def _streams(response: httpx.Response) -> bool:
    return response.headers.get("content-type", "").startswith("text/event-stream")


def _envelope(body: dict[str, Any]) -> dict[str, Any]:
    assert (body["jsonrpc"], body["id"]) == ("2.0", "v-1")
    assert set(body) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"}), body
    return body


def _query(params: dict[str, Any]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in params.items()}


def _ending(call: Any) -> dict[str, Any]:
    """What was said in the beginning and at the end, which this waits for."""
    return dict((*call.initial_metadata(), *call.trailing_metadata()))


def _status(call: Any) -> dict[str, Any]:
    """The error, once what gRPC says of it and its details are found to say the same."""
    status = status_pb2.Status.FromString(_ending(call)["grpc-status-details-bin"])
    assert (status.code, status.message) == (call.code().value[0], call.details())
    details = [MessageToDict(detail) for detail in status.details]
    return read_error({"code": status.code, "message": status.message, "details": details}, details="details")
