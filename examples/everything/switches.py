"""A tool and a prompt that are there at times, and the tools that switch them on and off."""

from typing import Final

from dragoman.context import Caller
from dragoman.kit import prompt, skill, tool


class Switch:
    """On or off, in this process alone: a real agent would ask what all of its processes share."""

    def __init__(self) -> None:
        self._on = False

    def turn(self) -> str:
        """Turn it over."""
        self._on = not self._on
        return "on" if self._on else "off"

    def is_on(self, caller: Caller | None) -> bool:
        """The same for everybody."""
        del caller
        return self._on


_TOOL: Final = Switch()
_PROMPT: Final = Switch()


@prompt(offered=_PROMPT.is_on)
async def switched_prompt() -> str:
    """Be there when it is switched on."""
    return "You found it."


@skill(id="switches", description="Changes what there is.")
class Switches:
    """Lists change when these are called."""

    @tool(read_only=True)
    async def test_trigger_tool_change(self) -> str:
        """Put a tool on the list, or take it off."""
        return _TOOL.turn()

    @tool(read_only=True)
    async def test_trigger_prompt_change(self) -> str:
        """Put a prompt on the list, or take it off."""
        return _PROMPT.turn()

    @tool(read_only=True, offered=_TOOL.is_on)
    async def switched_tool(self) -> str:
        """Be there when it is switched on."""
        return "You found it."
