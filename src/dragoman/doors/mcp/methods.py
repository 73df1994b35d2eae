"""How a method of MCP is answered: who asks, and what an error of ours looks like."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import structlog
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import PaginatedRequestParams, RequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from dragoman.context import Caller, Progress, current_request
from dragoman.doors.mcp.unfit import UNFIT_KEY
from dragoman.doors.mcp.wire import ADMITTED_KEY, INVALID_PARAMS, Json, error_json, rpc_code
from dragoman.errors import DragomanError, InvalidInput, Unauthenticated
from dragoman.infra.limits import Admitted

Context = ServerRequestContext[Any, Any]
P = TypeVar("P", bound=RequestParams)
_LOG = structlog.get_logger(__name__)


def add(server: "Server[Any]", method: str, params: type[P], answer: Callable[[Context, P], Awaitable[Json]]) -> None:
    """Serve a method; an error of ours becomes one of JSON-RPC."""

    async def handler(ctx: Context, given: P) -> Json:
        try:
            result = await answer(ctx, given)
            # The older era does not know this field.
            return {"resultType": "complete"} | result if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else result
        except DragomanError as error:
            raise MCPError(rpc_code(error), error.message, error_json(error)) from None
        except MCPError:
            raise
        except Exception:
            _LOG.exception("mcp.call_failed", method=method)
            raise

    server.add_request_handler(method, params, handler)


def require_caller() -> Caller:
    """Who asks; the edge has found out."""
    request = current_request()
    if request is None or request.caller is None:
        raise Unauthenticated("no caller", presented=False)
    return request.caller


def find_admitted(ctx: Context) -> Admitted | None:
    """What the door was given when it counted the message that is answered."""
    scope: Json = getattr(ctx.request, "scope", {})
    return scope.get(ADMITTED_KEY)


def find_unfit(ctx: Context) -> InvalidInput | None:
    """Why the door has taken arguments out of the tool call that is answered; None where it has not."""
    scope: Json = getattr(ctx.request, "scope", {})
    return scope.get(UNFIT_KEY)


def listener(ctx: Context) -> Progress | None:
    """Who hears how far a request is; None when its client did not ask to."""
    if ctx.meta is None or ctx.meta.get("progress_token") is None:
        return None
    said = 0

    async def tell(text: str, percent: float | None) -> None:
        nonlocal said
        said += 1
        # It must grow with every notification, so what has no measure is counted.
        done, total = (float(said), None) if percent is None else (percent, 100.0)
        await ctx.session.report_progress(done, total, text)

    return tell


def refuse_cursor(params: PaginatedRequestParams) -> None:
    """No list of ours has a second page, so no cursor can be ours."""
    if params.cursor is not None:
        raise MCPError(INVALID_PARAMS, "Invalid cursor")
