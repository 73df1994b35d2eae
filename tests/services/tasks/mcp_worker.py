"""An MCP server that performs actions: its arguments are a port, and the directory where it leaves its traces."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
IDEMPOTENT = types.ToolAnnotations(idempotent_hint=True)
TOOLS = [
    types.Tool(name="form_fill", description="Fills a form.", input_schema=SCHEMA, annotations=IDEMPOTENT),
    types.Tool(name="form_break", description="Fails.", input_schema=SCHEMA),
    types.Tool(name="form_die", description="Ends the server.", input_schema=SCHEMA),
    types.Tool(name="form_die_once", description="Ends the server once.", input_schema=SCHEMA, annotations=IDEMPOTENT),
]


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    del ctx, params
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    name, meta = (params.arguments or {})["name"], dict(ctx.meta or {})
    path = Path(sys.argv[2]) / name
    first = not path.exists()
    with path.open("a") as file:
        file.write(f"{meta['dragoman/idempotencyKey']}\n")
    if params.name == "form_die" or (params.name == "form_die_once" and first):
        os._exit(1)
    if params.name == "form_break":
        error = {"error": {"code": "NO_FORM", "message": "there is no such form"}}
        return types.CallToolResult(content=[_text("there is no such form")], structured_content=error, is_error=True)
    done = {"filled": name, "matter": meta["dragoman/envelope"]["matter"]["id"]}
    return types.CallToolResult(content=[_text(json.dumps(done))], structured_content=done)


def _text(words: str) -> types.TextContent:
    return types.TextContent(type="text", text=words)


async def main() -> None:
    server = Server("forms", on_list_tools=list_tools, on_call_tool=call_tool)
    config = uvicorn.Config(server.streamable_http_app(), port=int(sys.argv[1]), log_level="error")
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    asyncio.run(main())
