"""What an agent should know when a conversation begins, and memory and knowledge as tools of A2A and MCP."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Any, Final
from uuid import UUID

import structlog

from dragoman import kit
from dragoman.app.offers import operation_tool
from dragoman.app.tools import GateTools
from dragoman.context import Caller
from dragoman.errors import DragomanError
from dragoman.gate import Gate
from dragoman.operations import AnyOperation, Handlers, I, O, Operation
from dragoman.services.governance import operations as governance
from dragoman.services.memory import operations as memory

Json = dict[str, Any]
_LOG = structlog.get_logger(__name__)
_MEMORIES: Final = 10
_CONSTRAINTS: Final = 50
# About 1,500 tokens for each of the two.
_MOST_CHARACTERS: Final = 6_000
# What many conversations of one moment ask alike is looked up once; what another process changed is seen after that.
_FRESH_S: Final = 1.0
_MOST_KEPT: Final = 1_000
_LONGEST_S: Final = 1.0
_LONGEST_SEARCH_S: Final = 0.5
_SHOWN: Final = ("memory_id", "id", "content", "layer", "score", "tags")


class SessionContexts:
    """Memories that fit what is said first, and the rules in force, as far as the caller may see them."""

    def __init__(self, gate: Gate, handlers: Handlers, may: Callable[[Caller, AnyOperation], bool]) -> None:
        self._gate = gate
        self._may = may
        self._kept: dict[UUID, dict[object, tuple[float, list[Json]]]] = {}
        handlers.tell_of_writes({"memory", "knowledge"}, self._forget)

    async def open(self, caller: Caller, said: str) -> Json:
        """`{memories, constraints}`; what cannot be looked up now is left out, and no message waits for it."""
        # All that decides what a caller may see: another credential of the same person may see less.
        rights = (caller.roles, caller.scopes, caller.type)
        memories = await self._fresh(caller, (rights, caller.subject, said), lambda: self._memories(caller, said))
        constraints = await self._fresh(caller, rights, lambda: self._constraints(caller))
        return {"memories": memories, "constraints": constraints}

    async def _fresh(self, caller: Caller, key: object, look_up: Callable[[], Awaitable[list[Json]]]) -> list[Json]:
        tenants = self._kept.get(caller.tenant)
        if tenants is not None and (kept := tenants.get(key)) is not None and monotonic() - kept[0] < _FRESH_S:
            return kept[1]
        try:
            async with asyncio.timeout(_LONGEST_S):
                found = within_budget(await look_up())
        except (DragomanError, TimeoutError) as error:
            _LOG.warning("session.not_known", reason=str(error) or type(error).__name__)
            found = list[Json]()
        tenants = self._kept.setdefault(caller.tenant, {})
        if len(tenants) >= _MOST_KEPT:
            tenants.clear()
        tenants[key] = (monotonic(), found)
        return found

    async def _forget(self, caller: Caller) -> None:
        self._kept.pop(caller.tenant, None)

    async def _memories(self, caller: Caller, said: str) -> list[Json]:
        """Those that fit what is said; the newest where nothing is said, or where finding them takes too long."""
        newest = await self._run(caller, memory.LIST, limit=_MEMORIES)
        if not newest or not said:
            return newest
        try:
            async with asyncio.timeout(_LONGEST_SEARCH_S):
                return await self._run(caller, memory.SEARCH, limit=_MEMORIES, query=said[:1_000])
        except TimeoutError:  # the model may be on its way up
            return newest

    async def _run(self, caller: Caller, operation: AnyOperation, **asked: Any) -> list[Json]:
        if (given := await self._read(caller, operation, asked)) is None:
            return []
        found = given.model_dump(mode="json")
        return [
            {("memory_id" if name == "id" else name): one[name] for name in _SHOWN if name in one}
            for one in found.get("results", found.get("items", []))
        ]

    async def _constraints(self, caller: Caller) -> list[Json]:
        if (given := await self._read(caller, governance.LIST_POLICIES, {})) is None:
            return []
        found = [rule.model_dump(mode="json") for rule in given.rules if rule.severity.value != "info"]
        return found[:_CONSTRAINTS]

    async def _read(self, caller: Caller, operation: Operation[I, O], raw: Json) -> O | None:
        """Run a read through the gate; None where the caller may not, which is no attempt of the caller to record.

        It is not counted: the message or the request that begins the session was.
        """
        if not self._may(caller, operation):
            return None
        return await self._gate.run(operation, caller, raw, admitted=self._gate.include(operation, caller))


class Ecosystem:
    """What is asked when a conversation begins, by the task core for A2A and by the door of MCP."""

    def __init__(self, contexts: SessionContexts, tools: GateTools) -> None:
        self._contexts = contexts
        self._tools = tools

    def adapter(self, caller: Caller) -> "HostedAdapter":
        """The ecosystem as one caller meets it."""
        return HostedAdapter(self._contexts, self._tools, caller)

    async def open(self, caller: Caller, said: str) -> Json:
        """What the first task of a conversation carries."""
        context = await self.adapter(caller).on_session_start(kit.Session("", said))
        return {"memories": context.memories, "constraints": context.constraints}


class HostedAdapter:
    """An `EcosystemAdapter` for those who speak to this server itself: its tools are the operations.

    A session of A2A is a context, which begins with its first message; one of MCP begins when a client introduces
    itself, or asks for the session context later on, when it knows what it is about.
    """

    def __init__(self, contexts: SessionContexts, tools: GateTools, caller: Caller) -> None:
        self._contexts = contexts
        self._all = tools
        self._caller = caller

    async def get_memory_tools(self) -> Sequence[kit.Tool]:
        """The tools of memory, as every door shows them."""
        return [operation_tool(self._all, one) for one in self._all if one.skill == "memory"]

    async def get_knowledge_tools(self) -> Sequence[kit.Tool]:
        """The tools of knowledge, as every door shows them."""
        return [operation_tool(self._all, one) for one in self._all if one.skill == "knowledge"]

    async def get_session_context(self, session: kit.Session) -> kit.SessionContext:
        """What matters to this caller at such a beginning."""
        return kit.SessionContext(**await self._contexts.open(self._caller, session.about))

    async def on_session_start(self, session: kit.Session) -> kit.SessionContext:
        """A conversation begins."""
        return await self.get_session_context(session)

    async def on_message(self, session: kit.Session, role: str, text: str) -> None:
        """Nothing to do: the thread of a context keeps what is said, and MCP carries no talk."""

    async def on_tool_use(self, session: kit.Session, tool: str, arguments: Json, output: Any) -> None:
        """Nothing to do: tasks and the audit trail keep what tools were asked and gave."""

    async def on_session_end(self, session: kit.Session) -> None:
        """Nothing to do: a thread expires by itself, and MCP has no end of a session."""


def within_budget(found: Sequence[Json]) -> list[Json]:
    """As many of the first as fit."""
    kept: list[Json] = []
    left = _MOST_CHARACTERS
    for one in found:
        left -= sum(len(str(value)) for value in one.values())
        if left < 0:
            break
        kept.append(one)
    return kept
