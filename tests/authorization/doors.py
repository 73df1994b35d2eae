"""Every door and binding: an operation or a passage goes in, the code of its answer and its text come out."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote
from uuid import uuid4

import grpc
import httpx
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc
from google.protobuf.json_format import MessageToJson, ParseDict

from dragoman.parity.doors import binding_of
from tests.doors.a2a.grpc_calling import address_of, reason_of
from tests.harness import Server
from tests.patience import PATIENCE_S

Json = dict[str, Any]
_MCP: Final = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
_OK: Final = ""
# The protocol's own names for what is not there.
_NOT_FOUND: Final = ("NOT_FOUND", "TASK_NOT_FOUND", "-32002")


@dataclass(frozen=True, slots=True)
class Answer:
    """An empty code is a success; the message is that of an error; the text is all that was said."""

    code: str
    text: str
    message: str = ""

    @classmethod
    def failed(cls, code: str, message: str, text: str = "") -> "Answer":
        """Return a failure, with one code for everything that does not exist."""
        return cls("NOT_FOUND" if code in _NOT_FOUND else code, text, message)


class Door(Protocol):
    """One way in."""

    name: str

    async def call(self, credential: str, operation: str, arguments: Json) -> Answer:
        """Run an operation, by its name."""
        ...


def _headers(credential: str) -> dict[str, str]:
    return {"authorization": f"Bearer {credential}"} if credential else {}


class Rest:
    """REST, by the addresses of the operations."""

    name = "REST"

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def call(self, credential: str, operation: str, arguments: Json) -> Answer:
        """Run it."""
        binding, given = binding_of(operation.replace(".", "_")), dict(arguments)
        path = binding.path
        for name in binding.parameters:
            path = path.replace(f"{{{name}}}", quote(str(given.pop(name, "-")), safe=""))
        sent: Json = {"params": given} if binding.method == "GET" else {"json": given}
        answer = await self._http.request(binding.method, path, headers=_headers(credential), **sent)
        if answer.is_success:
            return Answer(_OK, answer.text)
        body = answer.json()
        return Answer.failed(body["code"], body["detail"], answer.text)


class Mcp:
    """Tools of MCP over HTTP."""

    name = "MCP"

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def call(self, credential: str, operation: str, arguments: Json) -> Answer:
        """Call the tool."""
        params = {"name": operation.replace(".", "_"), "arguments": arguments}
        return await self.ask(credential, "tools/call", params)

    async def ask(self, credential: str, method: str, params: Json) -> Answer:
        """Ask anything."""
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = await self._http.post("/mcp", json=call, headers=_MCP | _headers(credential))
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")] or [answer.text]
        body = json.loads(lines[-1])
        if "error" in body:
            told = body["error"].get("data") or {}
            return Answer.failed(told.get("code", str(body["error"]["code"])), body["error"]["message"], answer.text)
        if "code" in body:
            return Answer.failed(body["code"], body["detail"], answer.text)
        if method == "resources/read":
            return Answer(_OK, answer.text)
        error = (body["result"].get("structuredContent") or {}).get("error")
        return Answer.failed(error["code"], error["message"], answer.text) if error else Answer(_OK, answer.text)

    async def show_task(self, credential: str, task_id: str) -> Answer:
        """Read the resource of a task."""
        return await self.ask(credential, "resources/read", {"uri": f"dragoman://task/{task_id}"})


class A2a:
    """The methods of A2A 1.0, over any binding."""

    name = "A2A"

    async def call(self, credential: str, operation: str, arguments: Json) -> Answer:
        """Send a message that names the tool."""
        part = {"data": {"tool": operation.replace(".", "_"), "arguments": arguments}}
        return _of_task(await self.ask(credential, "SendMessage", send(part)))

    async def ask(self, credential: str, method: str, params: Json) -> Answer:
        """Call a method."""
        raise NotImplementedError


class JsonRpc(A2a):
    """A2A over JSON-RPC."""

    name = "A2A JSON-RPC"
    version = "1.0"

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def ask(self, credential: str, method: str, params: Json) -> Answer:
        """Call it; of a stream, hear the first event."""
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = _headers(credential) | {"A2A-Version": self.version}
        async with self._http.stream("POST", "/a2a", json=call, headers=headers) as answer:
            text = await _first(answer)
        body = json.loads(text)
        if "result" in body:
            return Answer(_OK, json.dumps(body["result"]))
        if "error" not in body:
            return Answer.failed(body["code"], body["detail"], text)
        return Answer.failed(_reason(body["error"].get("data") or []), body["error"]["message"], text)


class JsonRpc03(JsonRpc):
    """A2A 0.3 over JSON-RPC: the same questions in its words. It has no list of tasks."""

    name = "A2A 0.3"
    version = "0.3"
    METHODS: Final = {
        "SendMessage": "message/send",
        "GetTask": "tasks/get",
        "CancelTask": "tasks/cancel",
        "SubscribeToTask": "tasks/resubscribe",
        "CreateTaskPushNotificationConfig": "tasks/pushNotificationConfig/set",
        "GetTaskPushNotificationConfig": "tasks/pushNotificationConfig/get",
        "ListTaskPushNotificationConfigs": "tasks/pushNotificationConfig/list",
        "DeleteTaskPushNotificationConfig": "tasks/pushNotificationConfig/delete",
        "GetExtendedAgentCard": "agent/getAuthenticatedExtendedCard",
    }

    async def ask(self, credential: str, method: str, params: Json) -> Answer:
        """Call it; of a stream, hear the first event."""
        return await super().ask(credential, self.METHODS[method], _older(params))


class HttpJson(A2a):
    """A2A over HTTP+JSON."""

    name = "A2A HTTP+JSON"
    _PATHS: Final = {
        "SendMessage": ("POST", "/message:send"),
        "GetTask": ("GET", "/tasks/{id}"),
        "ListTasks": ("GET", "/tasks"),
        "CancelTask": ("POST", "/tasks/{id}:cancel"),
        "SubscribeToTask": ("POST", "/tasks/{id}:subscribe"),
        "CreateTaskPushNotificationConfig": ("POST", "/tasks/{taskId}/pushNotificationConfigs"),
        "GetTaskPushNotificationConfig": ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
        "ListTaskPushNotificationConfigs": ("GET", "/tasks/{taskId}/pushNotificationConfigs"),
        "DeleteTaskPushNotificationConfig": ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
        "GetExtendedAgentCard": ("GET", "/extendedAgentCard"),
    }

    def __init__(self, http: httpx.AsyncClient, base: str) -> None:
        self._http = http
        self._base = base

    async def ask(self, credential: str, method: str, params: Json) -> Answer:
        """Call it; of a stream, hear the first event."""
        verb, path = self._PATHS[method]
        given = dict(params)
        for name in ("id", "taskId"):
            if f"{{{name}}}" in path:
                path = path.replace(f"{{{name}}}", quote(given.pop(name), safe=""))
        sent: Json = {"json": given} if verb == "POST" else {"params": given}
        async with self._http.stream(verb, f"{self._base}{path}", headers=_headers(credential), **sent) as answer:
            text = await _first(answer)
        body = json.loads(text)
        if answer.is_success and "error" not in body:
            return Answer(_OK, text)
        if "error" not in body:
            return Answer.failed(body["code"], body["detail"], text)
        return Answer.failed(_reason(body["error"]["details"]), body["error"]["message"], text)


class Grpc(A2a):
    """A2A over gRPC; its calls block, so each has a thread."""

    name = "A2A gRPC"

    def __init__(self, server: Server) -> None:
        self._channel = grpc.insecure_channel(address_of(server))
        self._stub: Any = a2a_pb2_grpc.A2AServiceStub(self._channel)

    async def ask(self, credential: str, method: str, params: Json) -> Answer:
        """Call it; of a stream, hear the first event."""
        return await asyncio.to_thread(self._ask, credential, method, params)

    def _ask(self, credential: str, method: str, params: Json) -> Answer:
        metadata = [("a2a-version", "1.0"), *_headers(credential).items()]
        kind = "TaskPushNotificationConfig" if method.startswith("Create") else f"{method}Request"
        request = ParseDict(params, getattr(pb, kind)())
        try:
            answer = getattr(self._stub, method)(request, timeout=PATIENCE_S, metadata=metadata)
            if method == "SubscribeToTask":
                first = next(answer)
                answer.cancel()
                answer = first
            return Answer(_OK, MessageToJson(answer))
        except grpc.RpcError as error:
            told: Any = error
            return Answer.failed(reason_of(told) or told.code().name, told.details(), str(told))

    def close(self) -> None:
        """Hang up."""
        self._channel.close()


class Seed:
    """The plain paths of A2A 0.1."""

    name = "A2A 0.1"

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def call(self, credential: str, operation: str, arguments: Json) -> Answer:
        """Send a message that names the tool."""
        part = {"type": "data", "data": {"tool": operation.replace(".", "_"), "arguments": arguments}}
        return _of_task(
            await self.ask(credential, "POST", "/tasks/send", {"message": {"role": "user", "parts": [part]}})
        )

    async def ask(self, credential: str, verb: str, path: str, body: Json | None = None) -> Answer:
        """Ask anything."""
        answer = await self._http.request(verb, path, json=body, headers=_headers(credential))
        given = answer.json()
        if answer.is_success:
            return Answer(_OK, answer.text)
        return Answer.failed(given["code"], given["detail"], answer.text)

    async def show_task(self, credential: str, task_id: str) -> Answer:
        """Ask how a task stands."""
        return await self.ask(credential, "GET", f"/tasks/{task_id}/get")


def send(part: Json, **fields: Any) -> Json:
    """Return the params of a message."""
    return {"message": {"role": "ROLE_USER", "messageId": uuid4().hex, "parts": [part], **fields}}


def _older(params: Json) -> Json:
    """Return params of 1.0 as 0.3 has them."""
    if "message" in params:
        message = params["message"]
        parts = [{"kind": "text" if "text" in part else "data", **part} for part in message["parts"]]
        return {"message": {**message, "kind": "message", "role": "user", "parts": parts}}
    if "url" in params:
        config = {name: value for name, value in params.items() if name != "taskId"}
        return {"taskId": params["taskId"], "pushNotificationConfig": config}
    if "taskId" in params:
        named = {"pushNotificationConfigId": params["id"]} if "id" in params else {}
        return {"id": params["taskId"], **named}
    return params


async def _first(answer: httpx.Response) -> str:
    """Return the body, or the first event of a stream."""
    if not answer.headers["content-type"].startswith("text/event-stream"):
        return (await answer.aread()).decode()
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            return line[6:]
    raise AssertionError("the stream ended without an event")


def _reason(details: list[Json]) -> str:
    info = details[0] if details else {}
    return (info.get("metadata") or {}).get("code") or info.get("reason", "")


def _of_task(answer: Answer) -> Answer:
    """Return what a tool answered, out of the task that it became."""
    if answer.code:
        return answer
    body = json.loads(answer.text)
    task = body.get("task", body)
    if "action" in task.get("metadata", {}):
        return answer
    parts = task["status"].get("message", {}).get("parts", [])
    error = next((part["data"]["error"] for part in parts if "error" in (part.get("data") or {})), None)
    return Answer.failed(error["code"], error["message"], answer.text) if error else answer
