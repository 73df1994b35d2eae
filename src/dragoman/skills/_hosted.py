"""What all skills over the server's operations have in common."""

from collections.abc import Iterable
from typing import Any

from dragoman.kit import Artifact, Completed, Context, Failed, OnInputResult, SkillHandler, Tool, ToolResult


class HostedSkill(SkillHandler):
    """A skill whose tools are operations of its host."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._by_name = {tool.name: tool for tool in tools}
        self.tools = list(self._by_name.values())  # pyright: ignore[reportAttributeAccessIssue] an instance has its own

    def has(self, name: str) -> bool:
        """Whether its host gave it this tool."""
        return name in self._by_name

    async def use(self, ctx: Context, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Run an operation for the caller of this task."""
        return await self._by_name[name].call(arguments, ctx.for_tool())

    def ended(self, name: str, given: ToolResult, words: str = "") -> OnInputResult:
        """The end of a task that an operation did: its output, with words for people, or its error."""
        if given.is_error:
            return Failed(str(given.output), given.code, given.details)
        return Completed(words or None, [Artifact.from_json(name, given.output)])
