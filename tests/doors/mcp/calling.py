"""MCP as clients speak it: raw, in either era, and by the official SDK."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Literal

import httpx
import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.harness import Server

MODERN, OLDER, OLD = "2026-07-28", "2025-11-25", "2025-06-18"
TASKS = "io.modelcontextprotocol/tasks"
_META = "io.modelcontextprotocol/"
ACCEPTS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Mcp:
    """One caller, message by message. The fixture of all these tests closes it."""

    opened: ClassVar[list[httpx.Client]] = []

    def __init__(self, server: Server, *, keys_of: Server | None = None, **who: Any) -> None:
        self.http = server.client((keys_of or server).token(**who))
        self.opened.append(self.http)

    def post(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        era: str = MODERN,
        capabilities: Any = None,
        **changed: str,
    ) -> httpx.Response:
        """Send one request."""
        given = dict(params or {})
        headers = ACCEPTS | {"mcp-protocol-version": era}
        if era == MODERN:
            headers["mcp-method"] = method
            named = given.get(NAMES.get(method, "taskId"))
            headers |= {"mcp-name": named} if isinstance(named, str) else {}
            given["_meta"] = {
                f"{_META}protocolVersion": MODERN,
                f"{_META}clientInfo": {"name": "test", "version": "1"},
                f"{_META}clientCapabilities": capabilities or {},
            } | given.get("_meta", {})
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": given}
        headers |= {name.replace("_", "-"): value for name, value in changed.items()}
        return self.http.post("/mcp", json=body, headers=headers)

    def ask(self, method: str, params: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        """The result of a request that succeeds."""
        answer = read(self.post(method, params, **options))
        assert "error" not in answer, answer
        return answer["result"]

    def error(self, method: str, params: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        """The error of a request that fails."""
        answer = read(self.post(method, params, **options))
        assert "result" not in answer, answer
        return answer["error"]

    def call(self, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        """The result of a tool."""
        meta = options.pop("meta", None)
        params = {"name": name, "arguments": arguments or {}} | ({"_meta": meta} if meta else {})
        return self.ask("tools/call", params, **options)


def read(response: httpx.Response) -> dict[str, Any]:
    """The answer in a response, whether it came as JSON or as the last event of a stream."""
    text = response.text
    if response.headers["content-type"].startswith("text/event-stream"):
        text = [line for line in text.splitlines() if line.startswith("data:")][-1].removeprefix("data:")
    answer: dict[str, Any] = json.loads(text)
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", 7)
    return answer


@asynccontextmanager
async def official(
    server: Server, *, mode: Literal["legacy", "auto"], token: str | None = None, **options: Any
) -> AsyncGenerator[Client]:
    """The official client over HTTP."""
    headers = {"authorization": f"Bearer {token or server.token(role='super_admin')}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=mode, **options) as client,
    ):
        yield client
