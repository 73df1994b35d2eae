"""An MCP server with a few tools on two pages: over its pipes, or on the port that is its argument."""

import asyncio
import os
import sys
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
PAGES = {
    None: [
        types.Tool(
            name="add",
            description="Adds.",
            input_schema=SCHEMA,
            annotations=types.ToolAnnotations(read_only_hint=True),
        ),
        types.Tool(name="fail.now", description="Fails.", input_schema=EMPTY),
    ],
    "2": [
        types.Tool(name="hang", description="Never answers.", input_schema=EMPTY),
        types.Tool(name="die", description="Ends the server.", input_schema=EMPTY),
        types.Tool(name="pid", description="The process.", input_schema=EMPTY),
    ],
}


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    del ctx
    cursor = params.cursor if params else None
    return types.ListToolsResult(tools=PAGES[cursor], next_cursor=None if cursor else "2")


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    del ctx
    arguments = params.arguments or {}
    match params.name:
        case "add":
            total = arguments["a"] + arguments["b"]
            return types.CallToolResult(content=[_text(str(total))], structured_content={"sum": total})
        case "pid":
            return types.CallToolResult(content=[_text(str(os.getpid()))])
        case "hang":
            await asyncio.sleep(600)
        case "die":
            os._exit(1)
        case _:
            pass
    return types.CallToolResult(content=[_text("it failed as it was asked to")], is_error=True)


def _text(words: str) -> types.TextContent:
    return types.TextContent(type="text", text=words)


async def main() -> None:
    server = Server("sums", on_list_tools=list_tools, on_call_tool=call_tool)
    if len(sys.argv) > 1:
        import uvicorn  # noqa: PLC0415 only over HTTP

        config = uvicorn.Config(server.streamable_http_app(), port=int(sys.argv[1]), log_level="error")
        await uvicorn.Server(config).serve()
        return
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
