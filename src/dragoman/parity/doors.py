"""A running server by each of its doors: a tool goes in, its output or its error comes out, in one shape."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast
from urllib.parse import quote
from uuid import uuid4

import httpx

from dragoman.addresses import bindings
from dragoman.operations import Binding

Json = dict[str, Any]
_TIMEOUT_S: Final = 60
_MCP: Final = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}


@dataclass(frozen=True, slots=True)
class Target:
    """The server, the credentials, and the environment that the shell is run in."""

    url: str
    token: str = field(repr=False)
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


class Door(Protocol):
    """One way into a server."""

    name: str

    def call(self, tool: str, arguments: Json) -> Json:
        """The tool's output, or `{"error": {code, message, details}}`."""
        ...


class Rest:
    """REST, by the addresses of the operations."""

    name = "rest"

    def __init__(self, target: Target) -> None:
        self._http = _client(target.url, target.token)

    def call(self, tool: str, arguments: Json) -> Json:
        """Run it."""
        binding, given = binding_of(tool), dict(arguments)
        path = binding.path
        for name in binding.parameters:
            path = path.replace(f"{{{name}}}", quote(str(given.pop(name, "-")), safe=""))
        if binding.method == "GET":
            answer = self._http.get(path, params=given)
        else:
            answer = self._http.request(binding.method, path, json=given)
        body: Json = answer.json()
        if not answer.is_success:
            details = {**body.get("details", {}), **({"errors": body["errors"]} if "errors" in body else {})}
            return {"error": {"code": body["code"], "message": body["detail"], "details": details}}
        data: Any = body["data"]
        return {"items": data} if isinstance(data, list) else cast("Json", data)


class Mcp:
    """MCP over streamable HTTP, one call a request."""

    name = "mcp"

    def __init__(self, target: Target) -> None:
        self._http = _client(target.url, target.token)

    def call(self, tool: str, arguments: Json) -> Json:
        """Call it."""
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        answer = self._http.post("/mcp", json=call, headers=_MCP)
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")] or [answer.text]
        body = json.loads(lines[-1])
        if "error" in body:
            return {"error": {"code": str(body["error"]["code"]), "message": body["error"]["message"], "details": {}}}
        return cast("Json", body["result"]["structuredContent"])


class A2aRpc:
    """A2A 1.0 over JSON-RPC."""

    name = "a2a json-rpc"

    def __init__(self, target: Target) -> None:
        self._http = _client(target.url, target.token)

    def call(self, tool: str, arguments: Json) -> Json:
        """Send a message that names it."""
        call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message(tool, arguments)}}
        body = self._http.post("/a2a", json=call, headers={"A2A-Version": "1.0"}).json()
        if "error" in body:
            return {"error": {"code": str(body["error"]["code"]), "message": body["error"]["message"], "details": {}}}
        return output_of(tool, body["result"]["task"])


class A2aHttp:
    """A2A 1.0 over HTTP+JSON, where its card says that it is spoken."""

    name = "a2a http+json"

    def __init__(self, target: Target) -> None:
        self._http = _client(interface(target.url, "HTTP+JSON"), target.token)

    def call(self, tool: str, arguments: Json) -> Json:
        """Send a message that names it."""
        body = self._http.post("/message:send", json={"message": message(tool, arguments)}).json()
        if "error" in body:
            return {"error": {"code": str(body["error"]["code"]), "message": body["error"]["message"], "details": {}}}
        return output_of(tool, body["task"])


class Cli:
    """The shell, as a program uses it."""

    name = "cli"

    def __init__(self, target: Target) -> None:
        self._environment = {**target.environment, "DRAGOMAN_URL": target.url, "DRAGOMAN_TOKEN": target.token}

    def call(self, tool: str, arguments: Json) -> Json:
        """Run the command."""
        binding, given = binding_of(tool), dict(arguments)
        noun, _, verb = binding.operation.name.partition(".")
        words = [noun, "show" if verb == "get" else verb.replace("_", "-")]
        words += [str(given.pop(name)) for name in binding.parameters]
        for name, value in given.items():
            words += [
                f"--{name.replace('_', '-')}",
                json.dumps(value) if isinstance(value, dict | list) else str(value),
            ]
        command = [sys.executable, "-m", "dragoman", *words, "--json"]
        done = subprocess.run(  # noqa: S603 - our own program
            command, env=self._environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        try:
            return cast("Json", json.loads(done.stdout))
        except ValueError:
            return {"error": {"code": f"EXIT_{done.returncode}", "message": done.stderr.strip(), "details": {}}}


def open_grpc(target: Target) -> Door:
    """A2A over gRPC, which needs an extra."""
    from dragoman.parity.grpc import A2aGrpc  # noqa: PLC0415 - as said

    return A2aGrpc(interface(target.url, "GRPC"), target)


DOORS: Final[dict[str, Callable[[Target], Door]]] = {
    "rest": Rest,
    "mcp": Mcp,
    "a2a": A2aRpc,
    "a2a-http": A2aHttp,
    "a2a-grpc": open_grpc,
    "cli": Cli,
}


def binding_of(tool: str) -> Binding:
    """Where the operation of a tool answers."""
    return next(binding for binding in bindings() if binding.operation.tool == tool)


def message(tool: str, arguments: Json) -> Json:
    """A message of A2A that names a tool."""
    part = {"data": {"tool": tool, "arguments": arguments}}
    return {"role": "ROLE_USER", "messageId": uuid4().hex, "parts": [part]}


def output_of(tool: str, task: Json) -> Json:
    """What a tool gave, from the task that answered; a task that was handed over is itself the answer."""
    told: Json = task.get("metadata", {})
    parts: list[Json] = task["status"].get("message", {}).get("parts", [])
    said: list[Json] = [part["data"] for part in parts if isinstance(part.get("data"), dict)]
    if "action" in told:
        waits: list[str] = next((data["approvals"] for data in said if "approvals" in data), list[str]())
        return {"task_id": told.get("retryOf", task["id"]), "waits_for": waits, **told}
    if (error := next((data["error"] for data in said if "error" in data), None)) is not None:
        return {"error": error}
    made = task.get("artifacts", [])
    return cast("Json", made[0]["parts"][0]["data"]) if made else {"error": {"code": "NO_ANSWER", "message": tool}}


def interface(url: str, binding: str) -> str:
    """The address that a server's card names for a binding."""
    card: Json = httpx.get(f"{url}/.well-known/agent-card.json", timeout=_TIMEOUT_S).json()
    return next(str(one["url"]) for one in card["supportedInterfaces"] if one["protocolBinding"] == binding)


def _client(url: str, token: str) -> httpx.Client:
    return httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=_TIMEOUT_S)
