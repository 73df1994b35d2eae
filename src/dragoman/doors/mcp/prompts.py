"""Ways of asking that make good use of tools; each is there when its tools are, for those who may use them."""

from dataclasses import dataclass
from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import GetPromptRequestParams, PaginatedRequestParams

from dragoman.context import Caller
from dragoman.doors.mcp.methods import Context, add, refuse_cursor, require_caller
from dragoman.doors.mcp.offer import Offer
from dragoman.doors.mcp.wire import INVALID_PARAMS, Json


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is said to the model; `{name}` in it is the argument of that name."""

    name: str
    title: str
    description: str
    tools: tuple[str, ...]
    said: str
    arguments: tuple[tuple[str, str], ...] = ()

    def shown(self) -> Json:
        """As it is listed."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "arguments": [
                {"name": name, "description": described, "required": True} for name, described in self.arguments
            ],
        }


_RECIPES: Final = (
    Recipe(
        "review-trail",
        "Review the audit trail",
        "Check that the trail is whole, then tell what was done and refused of late.",
        ("audit.verify", "audit.list"),
        "Call audit_verify. If the chain is broken, say where, and stop. Otherwise call audit_list and tell in a few "
        "lines who did what, through which door, and list every refusal and failure with its code.",
    ),
    Recipe(
        "check-change",
        "Check a change against what was decided",
        "Hold files against the constraints of accepted decisions and policies, and look up the reasons.",
        ("knowledge.check", "knowledge.show"),
        "Check this change before it is made:\n\n{change}\n\nCall knowledge_check with the files and dependencies that "
        "it touches. For every violation call knowledge_show with its item_id, and say in a sentence why the rule is "
        "there and what would satisfy it. Say plainly whether the change passes.",
        (("change", "A diff, or files with their paths."),),
    ),
    Recipe(
        "remember",
        "Remember something",
        "Store a fact where it will be found again, unless it is known already.",
        ("memory.search", "memory.add"),
        "Remember this: {fact}\n\nCall memory_search with its gist first. If the same is known, say so and add "
        "nothing. Otherwise call memory_add with one self-contained sentence, in the narrowest layer for which it is "
        "true.",
        (("fact", "What is to be remembered."),),
    ),
)


class Prompts:
    """Lists and fills in."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer

    def join(self, server: "Server[Any]") -> None:
        """Be offered by the server."""
        add(server, "prompts/list", PaginatedRequestParams, self.list)
        add(server, "prompts/get", GetPromptRequestParams, self.get)

    async def list(self, ctx: Context, params: PaginatedRequestParams) -> Json:
        """Those whose tools the caller may use."""
        del ctx
        refuse_cursor(params)
        return {"prompts": [recipe.shown() for recipe in self._open_to(require_caller())]}

    async def get(self, ctx: Context, params: GetPromptRequestParams) -> Json:
        """One, filled in."""
        del ctx
        recipe = next((one for one in self._open_to(require_caller()) if one.name == params.name), None)
        if recipe is None:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name[:200]}")
        given = params.arguments or {}
        missing = [name for name, _ in recipe.arguments if not given.get(name)]
        if missing:
            raise MCPError(INVALID_PARAMS, f"Missing arguments: {', '.join(missing)}")
        said = recipe.said
        for name, _ in recipe.arguments:
            said = said.replace(f"{{{name}}}", given[name])
        message = {"role": "user", "content": {"type": "text", "text": said}}
        return {"description": recipe.description, "messages": [message]}

    def _open_to(self, caller: Caller) -> "list[Recipe]":
        catalogue = self._offer.catalogue
        found = ((recipe, [catalogue.find_operation(name) for name in recipe.tools]) for recipe in _RECIPES)
        return [recipe for recipe, tools in found if all(tool and catalogue.may(caller, tool) for tool in tools)]
