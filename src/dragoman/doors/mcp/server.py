"""The SDK's server with our answers in it. Importing this needs the extra `mcp`, and costs 19 MB: see `door`."""

from dataclasses import dataclass
from typing import Any, Final

from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, PaginatedRequestParams

from dragoman import __version__
from dragoman.doors.mcp.calls import call_operation
from dragoman.doors.mcp.catalogue import OperationTool
from dragoman.doors.mcp.extension import TasksExtension, abilities
from dragoman.doors.mcp.listening import Listening
from dragoman.doors.mcp.methods import Context, add, find_admitted, find_unfit, listener, refuse_cursor, require_caller
from dragoman.doors.mcp.notes import Notes
from dragoman.doors.mcp.offer import Offer
from dragoman.doors.mcp.prompts import Prompts
from dragoman.doors.mcp.pushed import Pushed
from dragoman.doors.mcp.resources import Resources
from dragoman.doors.mcp.sessions import Sessions
from dragoman.doors.mcp.task_tools import TaskTools
from dragoman.doors.mcp.ticket import Tickets
from dragoman.doors.mcp.waiting import Waits
from dragoman.doors.mcp.wire import INVALID_PARAMS, Json, failed
from dragoman.doors.mcp.wishes import Wishes

# Lists differ from caller to caller, and change only with a release or a policy.
_PRIVATE: Final = CacheHint(ttl_ms=60_000, scope="private")
_CACHED: Final[tuple[CacheableMethod, ...]] = (
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
)
# What is read, and the instructions with what matters now.
_OF_THE_MOMENT: Final[tuple[CacheableMethod, ...]] = ("resources/read", "server/discover")
_STATE_TTL_S: Final = 86_400.0
_ABOUT: Final = (
    "Dragoman: one governed back-end for AI agents. Tools are the operations of the server, and you see those that you "
    "may use. A tool that fails answers with isError and structuredContent.error {code, message, details, retryable}. "
    "Writing tools take an idempotency_key: repeat a call whose answer was lost with the same key. Contract work is "
    "delegated with task_submit; the resource dragoman://contracts-profile says which actions there are and how."
)


@dataclass(frozen=True, slots=True)
class Parts:
    """The server, and what it is made of that others need: to read and keep sessions, and to end what has no end."""

    server: "Server[Any]"
    tickets: Tickets
    notes: Notes
    pushed: Pushed
    listening: Listening
    waits: Waits


def build_server(offer: Offer) -> Parts:
    """All methods, for both eras of the protocol."""
    tickets, notes = Tickets(offer.session_key), Notes(offer.valkey)
    pushed, waits = Pushed(offer, tickets, notes), Waits()
    sessions = Sessions(offer.contexts, offer.catalogue)
    tools = Tools(offer, sessions, pushed, waits)
    server: Server[Any] = Server(
        "dragoman",
        version=__version__,
        title="Dragoman",
        instructions=_ABOUT,
        cache_hints={**dict.fromkeys(_CACHED, _PRIVATE), **dict.fromkeys(_OF_THE_MOMENT, CacheHint(ttl_ms=0))},
        # For arguments that are mirrored in headers; without this, every call would list all tools first.
        get_tool_input_schema=offer.catalogue.find_mirrored,
    )
    # Spans are made by our own edge and gate, so the SDK's own are left out.
    server.middleware[:] = [_sealed_state(offer.state_key), sessions.introduce]
    add(server, "tools/list", PaginatedRequestParams, tools.list)
    add(server, "tools/call", CallToolRequestParams, tools.call)
    resources, prompts = Resources(offer, sessions), Prompts(offer, sessions)
    listening = Listening(offer, prompts, resources)
    for part in (resources, prompts, TasksExtension(offer), listening, Wishes(offer, resources, notes)):
        part.join(server)
    return Parts(server, tickets, notes, pushed, listening, waits)


class Tools:
    """What can be called."""

    def __init__(self, offer: Offer, sessions: Sessions, pushed: Pushed, waits: Waits) -> None:
        self._offer = offer
        self._sessions = sessions
        self._task_tools = TaskTools(offer, pushed, waits)

    async def list(self, ctx: Context, params: PaginatedRequestParams) -> Json:
        """All of them, on one page."""
        del ctx
        refuse_cursor(params)
        return {"tools": await self._sessions.adapter(require_caller()).tools()}

    async def call(self, ctx: Context, params: CallToolRequestParams) -> Json:
        """Call one."""
        tool = self._offer.catalogue.find_offered(params.name, require_caller())
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:200]}")
        if (unfit := find_unfit(ctx)) is not None:
            return failed(unfit)
        if isinstance(tool, OperationTool) and not (tool.operation.long and "task" in abilities(ctx)):
            given, meta = params.arguments or {}, dict[str, Any](ctx.meta or {})
            progress = listener(ctx)
            return await call_operation(
                self._offer,
                require_caller(),
                tool,
                given,
                meta=meta,
                admitted=find_admitted(ctx),
                progress=progress,
            )
        return await self._task_tools.call(ctx, tool, params)


def _sealed_state(key: bytes) -> RequestStateBoundary:
    """What a client carries from one call to the next is sealed, for this caller and these arguments alone."""

    def principal(_: Context) -> str:
        caller = require_caller()
        return f"{caller.tenant} {caller.subject}"

    security = RequestStateSecurity(keys=[key], ttl=_STATE_TTL_S, bind_principal=principal)
    return RequestStateBoundary(security, default_audience="dragoman")
