"""A2A as an `EcosystemAdapter`: tools as the card has them, and what the first task of a context carries."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Protocol

from pydantic import BaseModel

from dragoman import kit
from dragoman.context import Caller
from dragoman.operations import AnyOperation
from dragoman.services.tasks.models import Json

_NATIVE = ("memory", "knowledge")


class SessionContexts(Protocol):
    """Knows what matters when a conversation begins."""

    async def open(self, caller: Caller, session: kit.Session) -> kit.SessionContext:
        """Return what matters to this caller.

        Raises:
            InvalidInput: the session has ids that nothing can have.
        """
        ...


class A2aAdapter:
    """The ecosystem as one caller meets it, or as everybody does."""

    def __init__(self, operations: list[AnyOperation], contexts: SessionContexts, caller: Caller | None) -> None:
        self.operations = operations
        self._contexts = contexts
        self._caller = caller

    async def get_memory_tools(self) -> list[Json]:
        """The tools of memory, as entries of the card."""
        return self._tools("memory")

    async def get_knowledge_tools(self) -> list[Json]:
        """The tools of knowledge, as entries of the card."""
        return self._tools("knowledge")

    async def get_session_context(self, session: kit.Session) -> kit.SessionContext:
        """What the first task of a new context carries; nothing for everybody."""
        return await self._contexts.open(self._caller, session) if self._caller is not None else kit.SessionContext()

    async def tools(self) -> list[Json]:
        """All tools. Memory and knowledge come first: who reads a part of a long list reads its beginning."""
        others = [_tool(operation) for operation in self.operations if operation.skill not in _NATIVE]
        return [*await self.get_memory_tools(), *await self.get_knowledge_tools(), *others]

    def _tools(self, skill: str) -> list[Json]:
        return [_tool(operation) for operation in self.operations if operation.skill == skill]


class A2aEcosystem:
    """Makes the adapter of a caller."""

    def __init__(
        self,
        operations: Iterable[AnyOperation],
        contexts: SessionContexts,
        may: Callable[[Caller, AnyOperation], bool],
    ) -> None:
        self._operations = operations
        self._contexts = contexts
        self._may = may

    def adapter(self, caller: Caller | None) -> A2aAdapter:
        """The ecosystem as this caller meets it, with what it may use; as everybody does, with all that there is."""
        offered = [one for one in self._operations if caller is None or self._may(caller, one)]
        return A2aAdapter(offered, self._contexts, caller)


def _tool(operation: AnyOperation) -> Json:
    return {
        "name": operation.tool,
        "skill": operation.skill,
        "description": operation.description or operation.summary,
        "permission": operation.permission,
        "inputSchema": _schema(operation.input),
        "outputSchema": _schema(operation.output),
    }


@cache
def _schema(model: type[BaseModel]) -> Json:
    """Made once: who asks under ever new names of this host must not keep the server busy with it."""
    return model.model_json_schema()
