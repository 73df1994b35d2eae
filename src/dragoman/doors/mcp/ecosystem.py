"""MCP as an `EcosystemAdapter`: tools as `tools/list` has them, and what a client should know when it begins."""

from typing import Final, Protocol

from dragoman import kit
from dragoman.context import Caller
from dragoman.doors.mcp.catalogue import Catalogue
from dragoman.doors.mcp.wire import Json

_NATIVE: Final = ("memory", "knowledge")


class SessionContexts(Protocol):
    """Knows what matters when a conversation begins."""

    async def open(self, caller: Caller, session: kit.Session) -> kit.SessionContext:
        """Return what matters to this caller.

        Raises:
            InvalidInput: the session has ids that nothing can have.
        """
        ...


class McpAdapter:
    """The ecosystem as one caller meets it, with the tools that it may use."""

    def __init__(self, catalogue: Catalogue, contexts: SessionContexts, caller: Caller) -> None:
        self._catalogue = catalogue
        self._contexts = contexts
        self._caller = caller

    async def get_memory_tools(self) -> list[Json]:
        """The tools of memory."""
        return self._catalogue.of_skill(self._caller, "memory")

    async def get_knowledge_tools(self) -> list[Json]:
        """The tools of knowledge."""
        return self._catalogue.of_skill(self._caller, "knowledge")

    async def get_session_context(self, session: kit.Session) -> kit.SessionContext:
        """What matters to this caller."""
        return await self._contexts.open(self._caller, session)

    async def tools(self) -> list[Json]:
        """All tools: those of memory and knowledge, and the others, by name."""
        native = [*await self.get_memory_tools(), *await self.get_knowledge_tools()]
        tools = {tool["name"]: tool for tool in (*self._catalogue.others(self._caller, _NATIVE), *native)}
        return [tools[name] for name in sorted(tools)]
