"""Several A2A agents as a set of tools."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from dragoman.errors import DragomanError
from dragoman.kit._tool import Tool
from dragoman.kit.toolsets._a2a import A2aAgentTool


class A2aToolset:
    """Several A2A agents by the names that they are to have as tools; each describes itself by its card.

    An agent whose card cannot be read is offered all the same, and says by its errors what is wrong. The options are
    those of `A2aAgentTool`.
    """

    def __init__(self, agents: Mapping[str, str], **options: Any) -> None:
        self._tools = {
            name: A2aAgentTool(url, name=name, description=f"Asks the agent {name}.", **options)
            for name, url in agents.items()
        }
        self._described: set[str] = set()

    async def list_tools(self) -> Sequence[Tool]:
        """A tool for each agent."""
        await asyncio.gather(*(self._describe(name) for name in self._tools.keys() - self._described))
        return list(self._tools.values())

    async def _describe(self, name: str) -> None:
        with suppress(DragomanError):
            card = await self._tools[name].read_card()
            self._tools[name].description = card.described() or self._tools[name].description
            self._described.add(name)
