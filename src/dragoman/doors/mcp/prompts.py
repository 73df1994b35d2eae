"""Ways of asking: the agent's own, and those that make good use of tools, for those who may use them."""

from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import GetPromptRequestParams, PaginatedRequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from dragoman import kit
from dragoman.context import Caller
from dragoman.doors.mcp.content import content_of
from dragoman.doors.mcp.extension import abilities
from dragoman.doors.mcp.methods import Context, add, refuse_cursor, require_caller
from dragoman.doors.mcp.offer import Offer
from dragoman.doors.mcp.recipes import RECIPES
from dragoman.doors.mcp.sessions import Sessions
from dragoman.doors.mcp.wire import INVALID_PARAMS, Json
from dragoman.services.tasks.passages import READ_AGENT

_ARGUMENTS: Final = "arguments"


class Prompts:
    """Lists and fills in."""

    def __init__(self, offer: Offer, sessions: Sessions) -> None:
        self._offer = offer
        self._sessions = sessions
        self._begin = sessions.prompt

    def join(self, server: "Server[Any]") -> None:
        """Be offered by the server."""
        add(server, "prompts/list", PaginatedRequestParams, self.list)
        add(server, "prompts/get", GetPromptRequestParams, self.get)

    async def list(self, ctx: Context, params: PaginatedRequestParams) -> Json:
        """Those whose tools the caller may use."""
        del ctx
        refuse_cursor(params)
        return {"prompts": self.listed(require_caller())}

    async def get(self, ctx: Context, params: GetPromptRequestParams) -> Json:
        """One, filled in. What it lacks is asked of a client that can put a form to its user."""
        caller = require_caller()
        prompt = self._open_to(caller).get(params.name)
        if prompt is None:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name[:200]}")
        given = {**(params.arguments or {}), **_filled_in(params)}
        missing = prompt.missing(given)
        if missing and "form" in abilities(ctx) and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return {"resultType": "input_required", "inputRequests": {_ARGUMENTS: _form(prompt, missing)}}
        if missing:
            raise MCPError(INVALID_PARAMS, f"Missing arguments: {', '.join(one.name for one in missing)}")
        thread = await prompt.fill(given, caller)
        return {"description": prompt.description, "messages": [said for event in thread for said in _messages(event)]}

    def listed(self, caller: Caller) -> "list[Json]":
        """What this caller may use now, by name."""
        return [_shown(prompt) for prompt in self._open_to(caller).values()]

    def _open_to(self, caller: Caller) -> dict[str, kit.Prompt]:
        catalogue = self._offer.catalogue
        own = self._offer.prompts if catalogue.may(caller, READ_AGENT) else ()
        found = {prompt.name: prompt for prompt in own if prompt.is_offered(caller)}
        if self._sessions.is_open_to(caller):
            found[self._begin.name] = self._begin
        for recipe in RECIPES:
            operations = [catalogue.find_operation(name) for name in recipe.operations]
            if all(operation and catalogue.may(caller, operation) for operation in operations):
                found[recipe.prompt.name] = recipe.prompt
        return dict(sorted(found.items()))


def _shown(prompt: kit.Prompt) -> Json:
    arguments = [
        {"name": one.name, "description": one.description, "required": one.required} for one in prompt.arguments
    ]
    return {"name": prompt.name, "title": prompt.title, "description": prompt.description, "arguments": arguments}


def _form(prompt: kit.Prompt, missing: list[kit.PromptArgument]) -> Json:
    fields = {one.name: {"type": "string", "description": one.description} for one in missing}
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    form = {"mode": "form", "message": prompt.description, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": form}


def _filled_in(params: GetPromptRequestParams) -> dict[str, str]:
    answer: Any = (params.input_responses or {}).get(_ARGUMENTS)
    content: Json = (getattr(answer, "content", None) or {}) if getattr(answer, "action", None) == "accept" else {}
    return {name: value for name, value in content.items() if isinstance(value, str)}


def _messages(event: kit.Event) -> list[Json]:
    """One for each part, as the protocol has it."""
    role = "assistant" if event.role == "assistant" else "user"
    parts = event.content.model_dump(mode="json", exclude_none=True)["parts"]
    return [{"role": role, "content": content_of(part)} for part in parts]
