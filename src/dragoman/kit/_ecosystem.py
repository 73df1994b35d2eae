"""How an ecosystem of agents is given memory and knowledge: tools of its own kind, and what to know from the start."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dragoman.kit._tool import Tool


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation of an agent; `about` is what it begins with, where there is something to find by."""

    id: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class SessionContext:
    """What matters at the start: memories that fit and rules that hold, both within a budget."""

    memories: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    constraints: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def as_prompt(self) -> str:
        """For the instructions of a model; empty where there is nothing to say."""
        remembered = [f"- {one['content']}" for one in self.memories]
        rules = [f"- [{one['severity']}] {one['message'] or one['constraint']}" for one in self.constraints]
        sections = [("## Relevant Memories", remembered), ("## Active Constraints", rules)]
        return "\n\n".join("\n".join([title, *lines]) for title, lines in sections if lines)


class EcosystemAdapter(Protocol):
    """What every ecosystem needs: A2A is one, a Python framework that takes callables with schemas is another."""

    async def get_memory_tools(self) -> Sequence[Tool]:
        """The tools of memory, as this ecosystem calls them."""
        ...

    async def get_knowledge_tools(self) -> Sequence[Tool]:
        """The tools of knowledge, as this ecosystem calls them."""
        ...

    async def get_session_context(self, session: Session) -> SessionContext:
        """What an agent should know when this conversation begins."""
        ...

    async def on_session_start(self, session: Session) -> SessionContext:
        """A conversation begins."""
        ...

    async def on_message(self, session: Session, role: str, text: str) -> None:
        """Somebody said something in it."""
        ...

    async def on_tool_use(self, session: Session, tool: str, arguments: dict[str, Any], output: Any) -> None:
        """A tool was used in it."""
        ...

    async def on_session_end(self, session: Session) -> None:
        """It is over."""
        ...
