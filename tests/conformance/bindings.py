"""The bindings of A2A behind one call: a method and its params go out, an answer comes back, closely read."""

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

import httpx

from tests.conformance.reading import read_error, read_result
from tests.doors.a2a.calling import sse

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


BINDINGS: dict[str, Binding] = {"jsonrpc": JsonRpc(), "http+json": HttpJson()}


def _streams(response: httpx.Response) -> bool:
    return response.headers.get("content-type", "").startswith("text/event-stream")


def _envelope(body: dict[str, Any]) -> dict[str, Any]:
    assert (body["jsonrpc"], body["id"]) == ("2.0", "v-1")
    assert set(body) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"}), body
    return body


def _query(params: dict[str, Any]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in params.items()}
