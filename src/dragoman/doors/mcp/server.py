"""The SDK's server with our answers in it. Importing this needs the extra `mcp`, and costs 19 MB: see `door`."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

import structlog
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, PaginatedRequestParams, RequestParams

from dragoman import __version__
from dragoman.context import Caller, current_request
from dragoman.doors.mcp.calls import call_operation
from dragoman.doors.mcp.catalogue import OperationTool
from dragoman.doors.mcp.offer import Offer
from dragoman.doors.mcp.wire import INVALID_PARAMS, Json, error_json, rpc_code
from dragoman.errors import DragomanError, Unauthenticated

_LOG = structlog.get_logger(__name__)
# Lists differ from caller to caller, and change only with a release or a policy.
_PRIVATE: Final = CacheHint(ttl_ms=60_000, scope="private")
_CACHED: Final[tuple[CacheableMethod, ...]] = ("tools/list",)
_ABOUT: Final = (
    "Dragoman: one governed back-end for AI agents. Tools are the operations of the server, and you see those that you "
    "may use. A tool that fails answers with isError and structuredContent.error {code, message, details, retryable}. "
    "Writing tools take an idempotency_key: repeat a call whose answer was lost with the same key."
)
Context = ServerRequestContext[Any, Any]


def build_server(offer: Offer) -> "Server[Any]":
    """All methods, for both eras of the protocol."""
    tools = Tools(offer)
    server: Server[Any] = Server(
        "dragoman",
        version=__version__,
        title="Dragoman",
        instructions=_ABOUT,
        cache_hints=dict.fromkeys(_CACHED, _PRIVATE),
        # No argument of a tool is mirrored in a header, so there is nothing to compare; without this, every call would
        # list all tools first.
        get_tool_input_schema=_no_schema,
    )
    # Spans are made by our own edge and gate.
    server.middleware.clear()
    add(server, "tools/list", PaginatedRequestParams, tools.list)
    add(server, "tools/call", CallToolRequestParams, tools.call)
    return server


def add(
    server: "Server[Any]",
    method: str,
    params: type[RequestParams],
    answer: Callable[[Context, Any], Awaitable[Json]],
) -> None:
    """Serve a method; an error of ours becomes one of JSON-RPC."""

    async def handler(ctx: Context, given: RequestParams) -> Json:
        try:
            # The older era does not know this field, and the SDK leaves it out there.
            return {"resultType": "complete"} | await answer(ctx, given)
        except DragomanError as error:
            raise MCPError(rpc_code(error), error.message, error_json(error)) from None
        except MCPError:
            raise
        except Exception:
            _LOG.exception("mcp.call_failed", method=method)
            raise

    server.add_request_handler(method, params, handler)


class Tools:
    """What can be called."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer

    async def list(self, ctx: Context, params: PaginatedRequestParams) -> Json:
        """All of them, on one page."""
        del ctx
        refuse_cursor(params)
        return {"tools": self._offer.catalogue.listed(require_caller())}

    async def call(self, ctx: Context, params: CallToolRequestParams) -> Json:
        """Call one."""
        tool = self._offer.catalogue.find(params.name)
        if isinstance(tool, OperationTool):
            meta = cast("Json", ctx.meta or {})
            return await call_operation(self._offer.gate, require_caller(), tool, params.arguments or {}, meta)
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:200]}")


def require_caller() -> Caller:
    """Who asks; the edge has found out."""
    request = current_request()
    if request is None or request.caller is None:
        raise Unauthenticated("no caller", presented=False)
    return request.caller


def refuse_cursor(params: PaginatedRequestParams) -> None:
    """No list of ours has a second page, so no cursor can be ours."""
    if params.cursor is not None:
        raise MCPError(INVALID_PARAMS, "Invalid cursor")


def _no_schema(_: str) -> Mapping[str, Any] | None:
    return None
