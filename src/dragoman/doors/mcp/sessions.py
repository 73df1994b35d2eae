"""What a client should know when it begins: memories that fit and rules that hold, in every place where clients look.

It stands in the instructions that a client gets when it introduces itself, without being asked for, and in a resource
and a prompt, which can be told what it will be about.
"""

from typing import Annotated, Final

from mcp.server.context import CallNext, HandlerResult
from pydantic import Field

from dragoman import kit
from dragoman.context import Caller
from dragoman.doors.mcp.catalogue import Catalogue
from dragoman.doors.mcp.methods import Context, require_caller
from dragoman.doors.mcp.offer import Ecosystem

SESSION_URI: Final = "dragoman://session"
_KNOWN_BY: Final = ("memory.list", "governance.policies")
_BEGINNINGS: Final = ("initialize", "server/discover")
_NOTHING: Final = "Nothing is known yet that would matter here, and no rule is in force."


class Sessions:
    """Asks the ecosystem on behalf of the caller of a request."""

    def __init__(self, ecosystem: Ecosystem, catalogue: Catalogue) -> None:
        self._ecosystem = ecosystem
        self._catalogue = catalogue

    def is_open_to(self, caller: Caller) -> bool:
        """Whether there is anything that this caller may know."""
        operations = [self._catalogue.find_operation(name) for name in _KNOWN_BY]
        return any(operation and self._catalogue.may(caller, operation) for operation in operations)

    async def begin(self, caller: Caller, about: str = "") -> kit.SessionContext:
        """What matters to this caller now."""
        return await self._ecosystem.adapter(caller).on_session_start(kit.Session("", about))

    async def introduce(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Add what matters to the instructions of the server, where a client asks for them."""
        result = await call_next(ctx)
        if ctx.method not in _BEGINNINGS or not isinstance(result, dict) or "instructions" not in result:
            return result
        known = (await self.begin(require_caller())).as_prompt()
        return {**result, "instructions": f"{result['instructions']}\n\n{known}"} if known else result

    @property
    def prompt(self) -> kit.Prompt:
        """For people whose client shows no instructions, or who know what they are about to do."""

        async def begin(
            caller: Caller, about: Annotated[str, Field(description="What you are about to do.")] = ""
        ) -> str:
            return (await self.begin(caller, about)).as_prompt() or _NOTHING

        return kit.Prompt(
            begin, name="begin", title="Begin with what matters", description="Memories that fit, and rules in force."
        )
