"""MCP as clients speak it: raw, in either era, and by the official SDK."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, ClassVar, Literal, Self
from uuid import uuid4

import httpx
import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.harness import Server
from tests.patience import PATIENCE_S

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

    @classmethod
    def bearing(cls, client: httpx.Client) -> Self:
        """A caller with the credential of a client, which others close."""
        made = cls.__new__(cls)
        made.http = client
        return made

    def post(self, method: str, params: dict[str, Any] | None = None, **options: Any) -> httpx.Response:
        """Send one request."""
        return self.http.send(self.request(method, params, **options))

    def request(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        era: str = MODERN,
        capabilities: Any = None,
        **changed: str,
    ) -> httpx.Request:
        """One request, to be sent."""
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
        return self.http.build_request("POST", "/mcp", json=body, headers=headers)

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


class Session:
    """One session of the era with a handshake, which may go on at another process than the one that it began at."""

    def __init__(self, mcp: Mcp, *, era: str = OLDER, capabilities: Any = None, at: "Session | None" = None) -> None:
        self._mcp, self._era = mcp, era
        self.id = at.id if at is not None else self._begun(capabilities or {})

    def _begun(self, capabilities: Any) -> str:
        who = {"name": "test", "version": "1"}
        given = {"protocolVersion": self._era, "capabilities": capabilities, "clientInfo": who}
        answer = self._mcp.post("initialize", given, era=self._era)
        self.introduced: dict[str, Any] = read(answer)["result"]
        return answer.headers["mcp-session-id"]

    def elsewhere(self, mcp: Mcp) -> "Session":
        """The same session, of this caller or at this process."""
        return Session(mcp, era=self._era, at=self)

    def post(self, method: str, params: dict[str, Any] | None = None) -> httpx.Response:
        """Send one request."""
        return self._mcp.post(method, params, era=self._era, mcp_session_id=self.id)

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of a request that succeeds."""
        return self._mcp.ask(method, params, era=self._era, mcp_session_id=self.id)

    def answer(self, ref: Any, result: dict[str, Any] | None = None) -> int:
        """Answer what was asked, or refuse to; the status of that."""
        told = {"error": {"code": -1, "message": "rejected"}} if result is None else {"result": result}
        body = {"jsonrpc": "2.0", "id": ref, **told}
        return self._mcp.http.post("/mcp", json=body, headers=ACCEPTS | self._headers).status_code

    def call(self, name: str, **arguments: Any) -> "Line":
        """Call a tool, and hear what comes of it."""
        params = {"name": name, "arguments": arguments}
        asked = self._mcp.request("tools/call", params, era=self._era, mcp_session_id=self.id)
        return Line(self._mcp.http.send(asked, stream=True))

    def listen(self) -> "Line":
        """The stream of the session."""
        asked = self._mcp.http.build_request("GET", "/mcp", headers={"accept": "text/event-stream"} | self._headers)
        return Line(self._mcp.http.send(asked, stream=True))

    def end(self) -> int:
        """End it; the status of that."""
        return self._mcp.http.delete("/mcp", headers=self._headers).status_code

    @property
    def _headers(self) -> dict[str, str]:
        return {"mcp-protocol-version": self._era, "mcp-session-id": self.id}


class Line:
    """An open stream; what is not heard within the time-out of the client is not there."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self._response = response
        self._lines = response.iter_lines()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._response.close()

    def begun(self) -> Self:
        """Wait until there is a sign of it."""
        next(self._lines)
        return self

    def hear(self) -> dict[str, Any]:
        """The next message."""
        return json.loads(next(line for line in self._lines if line.startswith("data:")).removeprefix("data:"))

    def next(self, method: str) -> dict[str, Any]:
        """The next message, which must be of this method."""
        heard = self.hear()
        assert heard.get("method") == method, heard
        return heard

    def result(self) -> dict[str, Any]:
        """The next message, which must be the result."""
        heard = self.hear()
        assert heard["id"] == 7, heard
        return heard["result"]

    def rest(self) -> list[str]:
        """All that is still said, until the stream ends."""
        return [line for line in self._lines if line.startswith("data:")]


class Ear(Line):
    """An open stream of changes."""

    def __init__(self, mcp: Mcp, *, capabilities: Any = None, **notifications: Any) -> None:
        asked = mcp.request("subscriptions/listen", {"notifications": notifications}, capabilities=capabilities)
        super().__init__(mcp.http.send(asked, stream=True))
        self.acknowledged: dict[str, Any] = self.next("notifications/subscriptions/acknowledged")["notifications"]

    def next(self, method: str) -> dict[str, Any]:
        """The parameters of the next message, which must be this notification of this stream."""
        heard = super().next(method)
        assert heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 7
        return heard["params"]

    def end(self) -> None:
        """The next message must be the end, in good order."""
        heard = self.hear()
        assert heard["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == heard["id"] == 7, heard


def refused_answers(mcp: Mcp) -> list[tuple[str, str]]:
    """The refused answers that the caller's tenant has on record, oldest first: to which task, and why."""
    records = mcp.call("audit_list", {"operation": "message.send", "limit": 100})["structuredContent"]["items"]
    assert {record["outcome"] for record in records} <= {"done", "failed"}
    refused = [record for record in reversed(records) if record["outcome"] == "failed"]
    return [(record["resource"], record["code"]) for record in refused]


def propose(mcp: Mcp, title: str = "") -> str:
    """The id of a new item of knowledge that awaits acceptance."""
    given = {"type": "adr", "title": title or f"Item {uuid4().hex[:8]}", "content": "One database for everything."}
    return mcp.call("knowledge_propose", given)["structuredContent"]["id"]


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
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=mode, **options) as client,
    ):
        yield client
