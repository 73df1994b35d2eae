"""The floor of MCP: the SDK's low-level server with a tool that has nothing to do, under the same server as ours.

It checks no token, counts no limit and writes no log, so all that it spends goes into the protocol.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent, Tool
from starlette.applications import Starlette
from starlette.routing import Route

from bench.echo import listen_and_serve

_WHO: Final = {"tenant": "demo", "subject": "admin", "type": "user", "roles": ["org_admin"], "scopes": None}
_TOOL: Final = Tool(name="identity_show", input_schema={"type": "object"}, output_schema={"type": "object"})
Context = ServerRequestContext[Any, Any]


async def _list_tools(_: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
    return ListToolsResult(tools=[_TOOL])


async def _call_tool(_: Context, __: CallToolRequestParams) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=str(_WHO))], structured_content=_WHO)


def _no_schema(_: str) -> None:
    return None


def serve() -> None:
    """Serve on /mcp, as its documentation sets it up for many processes."""
    server = Server[Any]("floor", on_list_tools=_list_tools, on_call_tool=_call_tool, get_tool_input_schema=_no_schema)
    manager = StreamableHTTPSessionManager(server, stateless=True)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with manager.run():
            yield

    routes = [Route("/mcp", StreamableHTTPASGIApp(manager), methods=["POST"])]
    listen_and_serve(Starlette(routes=routes, lifespan=lifespan), lifespan="on")


if __name__ == "__main__":
    serve()
