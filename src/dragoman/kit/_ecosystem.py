"""How an ecosystem of agents is given memory and knowledge: tools of its own kind, and what to know from the start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

ToolT_co = TypeVar("ToolT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation of an agent: `about` is what it begins with, `ids` say where it belongs (`project_id`, ...).

    With `max_characters` its context is smaller than the server would make it.
    """

    id: str = ""
    about: str = ""
    ids: Mapping[str, str] = field(default_factory=dict[str, str])
    max_characters: int | None = None


@dataclass(frozen=True, slots=True)
class SessionContext:
    """What matters at the start: memories that fit and constraints in force, both within a budget.

    `omitted` counts those that the budget had no room for, `unavailable` names what could not be looked up.
    """

    memories: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    constraints: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    omitted: dict[str, int] = field(default_factory=dict[str, int])
    unavailable: list[str] = field(default_factory=list[str])

    def as_prompt(self) -> str:
        """For the instructions of a model; empty where there is nothing to say."""
        remembered = [f"- {_line(one['content'])}" for one in self.memories]
        rules = [f"- [{one['severity']}] {_line(one['message'] or one['constraint'])}" for one in self.constraints]
        sections = [
            ("## Relevant Memories", remembered, "memories"),
            ("## Active Constraints", rules, "constraints"),
        ]
        written = ["\n".join([title, *lines, *self._missing(name)]) for title, lines, name in sections if lines]
        written += [
            f"{title}\nThese could not be looked up now."
            for title, lines, name in sections
            if not lines and name in self.unavailable
        ]
        return "\n\n".join(written)

    def _missing(self, name: str) -> list[str]:
        more = self.omitted.get(name, 0)
        return [f"- ({more} more are not shown)"] if more else []


class EcosystemAdapter(Protocol[ToolT_co]):
    """What every ecosystem needs. A2A, MCP and Python frameworks each have one, with tools in their own form."""

    async def get_memory_tools(self) -> Sequence[ToolT_co]:
        """The tools of memory, as this ecosystem describes them."""
        ...

    async def get_knowledge_tools(self) -> Sequence[ToolT_co]:
        """The tools of knowledge, as this ecosystem describes them."""
        ...

    async def get_session_context(self, session: Session) -> SessionContext:
        """What an agent should know when this conversation begins; asking changes nothing."""
        ...


def _line(text: str) -> str:
    """A text on one line: what was remembered must not look like a heading or a rule of its own."""
    return " ".join(text.split())
