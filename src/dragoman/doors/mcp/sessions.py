"""What a client should know when it begins: memories that fit and rules that hold, in every place where clients look.

It stands in the instructions that a client gets when it introduces itself, without being asked for, and in a resource
and a prompt, which can be told what it will be about. Each takes the ids of a project, a team or a session.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, cast

from mcp.server.context import CallNext, HandlerResult
from pydantic import Field

from dragoman import kit
from dragoman.arguments import read_input
from dragoman.context import Caller
from dragoman.doors.mcp.catalogue import Catalogue
from dragoman.doors.mcp.ecosystem import McpAdapter, SessionContexts
from dragoman.doors.mcp.methods import Context, require_caller
from dragoman.doors.mcp.wire import Json
from dragoman.errors import InvalidInput
from dragoman.services.memory.session_context import ShowContext

SESSION_URI: Final = "dragoman://session"
SESSION_META: Final = "dragoman/session"
_ASKED: Final = ("about", "ids", "max_characters")
_KNOWN_BY: Final = ("memory.list", "governance.policies")
_BEGINNINGS: Final = ("initialize", "server/discover")
_NOTHING: Final = "Nothing is known yet that would matter here, and no rule is in force."


class Sessions:
    """Asks the ecosystem on behalf of the caller of a request."""

    def __init__(self, contexts: SessionContexts, catalogue: Catalogue) -> None:
        self._contexts = contexts
        self._catalogue = catalogue

    def is_open_to(self, caller: Caller) -> bool:
        """Whether there is anything that this caller may know."""
        operations = [self._catalogue.find_operation(name) for name in _KNOWN_BY]
        return any(operation and self._catalogue.may(caller, operation) for operation in operations)

    def adapter(self, caller: Caller) -> McpAdapter:
        """The ecosystem as this caller meets it."""
        return McpAdapter(self._catalogue, self._contexts, caller)

    async def begin(self, caller: Caller, session: kit.Session) -> kit.SessionContext:
        """What matters to this caller now.

        Raises:
            InvalidInput: the session has ids that nothing can have.
        """
        adapter: kit.EcosystemAdapter[Json] = self.adapter(caller)
        return await adapter.get_session_context(session)

    async def introduce(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Add what matters to the instructions of the server, where a client asks for them."""
        result = await call_next(ctx)
        if ctx.method not in _BEGINNINGS or not isinstance(result, dict) or "instructions" not in result:
            return result
        try:
            session = session_of(ctx.meta)
        except InvalidInput as error:  # a client that cannot begin would not learn what is wrong
            return {**result, "instructions": f"{result['instructions']}\n\n_meta {SESSION_META}: {error.message}"}
        known = (await self.begin(require_caller(), session)).as_prompt()
        return {**result, "instructions": f"{result['instructions']}\n\n{known}"} if known else result

    @property
    def prompt(self) -> kit.Prompt:
        """For people whose client shows no instructions, or who know what they are about to do."""

        async def begin(
            caller: Caller,
            about: Annotated[str, Field(description="What you are about to do.")] = "",
            project_id: Annotated[str, Field(description="The project it belongs to.")] = "",
            team_id: Annotated[str, Field(description="The team it belongs to.")] = "",
            session_id: Annotated[str, Field(description="The conversation that it goes on with.")] = "",
        ) -> str:
            named = {"project_id": project_id, "team_id": team_id, "session_id": session_id}
            session = kit.Session(about=about, ids={name: value for name, value in named.items() if value})
            return (await self.begin(caller, session)).as_prompt() or _NOTHING

        return kit.Prompt(
            begin, name="begin", title="Begin with what matters", description="Memories that fit, and rules in force."
        )


def session_of(meta: Mapping[str, Any] | None, about: str = "") -> kit.Session:
    """What the meta of a request says of the session that begins.

    Raises:
        InvalidInput: it is wrong; every field that is wrong is named.
    """
    given: Any = (meta or {}).get(SESSION_META, {})
    if not isinstance(given, dict):
        raise InvalidInput.of(SESSION_META, "must be an object")
    fields = cast("Json", given)
    wanted = read_input(ShowContext, {name: fields[name] for name in _ASKED if name in fields})
    return kit.Session("", about or wanted.about, wanted.ids.model_dump(exclude_none=True), wanted.max_characters)
