"""Dragoman's memory and knowledge for agents of any Python framework: an ordinary list of callables with schemas.

adapter = PythonAdapter("http://127.0.0.1:8080", token)
for tool in await adapter.get_memory_tools():
framework.add(tool.name, tool.description, tool.input_schema, tool.call)
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self, cast

import httpx

from dragoman.kit._ecosystem import Session, SessionContext
from dragoman.kit._errors import ToolError
from dragoman.kit._tool import Tool, ToolContext, ToolResult

_CARD: Final = "/.well-known/agent-card.json"
_SEND: Final = "/tasks/send"
_CONTEXT: Final = "/api/memories/context"
_LONGEST_ABOUT: Final = 4_096
_LONGEST_KEPT: Final = 4_000


class PythonAdapter:
    """An `EcosystemAdapter` that speaks to a running server with a bearer token.

    Close it, or use it in `async with`.
    """

    def __init__(self, url: str, token: str, *, timeout_s: float = 30.0) -> None:
        self._http = httpx.AsyncClient(
            base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=timeout_s, trust_env=False
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def get_memory_tools(self) -> Sequence[Tool]:
        """The tools of memory."""
        return await self._tools("memory")

    async def get_knowledge_tools(self) -> Sequence[Tool]:
        """The tools of knowledge."""
        return await self._tools("knowledge")

    async def get_session_context(self, session: Session) -> SessionContext:
        """What the server thinks that matters for this caller and this beginning; asking writes nothing."""
        ids = {"session_id": session.id, **session.ids} if session.id else dict(session.ids)
        asked: dict[str, Any] = {"about": session.about[:_LONGEST_ABOUT], "ids": ids}
        if session.max_characters is not None:
            asked["max_characters"] = session.max_characters
        told = (await self._json("POST", _CONTEXT, asked))["data"]
        return SessionContext(told["memories"], told["constraints"], told["omitted"], told["unavailable"])

    async def remember_message(self, session: Session, role: str, text: str) -> None:
        """Keep what was said in the memory of the session."""
        if text.strip():
            await self._keep(session, f"{role}: {text}", "conversation")

    async def remember_tool_use(self, session: Session, tool: str, arguments: dict[str, Any], output: Any) -> None:
        """Keep what a tool was asked and gave in the memory of the session."""
        await self._keep(session, f"{tool}({arguments}) gave {output}", "tool_result")

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Use a tool of the server."""
        task = await self._send({"type": "data", "data": {"tool": name, "arguments": arguments}})
        status = task["status"]
        if status["state"] == "completed":
            return ToolResult.success(task["artifacts"][0]["parts"][0]["data"])
        said: Any = status.get("message") or {}
        parts = cast("list[dict[str, Any]]", said.get("parts", []))
        error = next((part["data"]["error"] for part in parts if "error" in part.get("data", {})), None)
        if error is not None:
            return ToolResult.error(error["message"], error["code"], error.get("details"))
        words = " ".join(part["text"] for part in parts if part.get("type") == "text")
        return ToolResult.error(words or f"the server's task is {status['state']}", status["state"].upper())

    async def _tools(self, noun: str) -> list[Tool]:
        card = await self._json("GET", _CARD, None)
        extensions = cast("list[dict[str, Any]]", card["capabilities"].get("extensions", []))
        known = [tool for extension in extensions for tool in cast("list[Any]", extension["params"].get("tools", []))]
        return [self._tool(one) for one in known if one["skill"] == noun]

    def _tool(self, told: dict[str, Any]) -> Tool:
        async def invoke(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
            del ctx
            return await self.call(told["name"], arguments)

        return Tool(told["name"], told["description"], told["inputSchema"], invoke)

    async def _keep(self, session: Session, content: str, source: str) -> None:
        arguments: dict[str, Any] = {
            "content": content[:_LONGEST_KEPT],
            "layer": "session",
            "ids": {"session_id": session.id},
            "metadata": {"source": source},
        }
        kept = await self.call("memory_add", arguments)
        if kept.is_error:
            raise ToolError(f"the session could not be remembered: {kept.output}")

    async def _send(self, part: dict[str, Any]) -> dict[str, Any]:
        return await self._json("POST", _SEND, {"message": {"role": "user", "parts": [part]}})

    async def _json(self, method: str, path: str, body: Any) -> dict[str, Any]:
        try:
            response = await self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise ToolError(f"the server cannot be reached: {type(error).__name__}") from error
        if not response.is_success:
            raise ToolError(f"the server answered {response.status_code}")
        return cast("dict[str, Any]", response.json())
