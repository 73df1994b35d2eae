"""An MCP server that carries out recommendations: its arguments are a port, and the file where it leaves its traces."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"resource_id": {"type": "string"}}}
TOOL = types.Tool(
    name="remediation_execute", description="Carries out a recommendation.", input_schema=SCHEMA,
    annotations=types.ToolAnnotations(idempotent_hint=True),
)  # fmt: skip


def leave_trace(trace: dict[str, Any]) -> None:
    with Path(sys.argv[2]).open("a") as file:
        file.write(json.dumps(trace) + "\n")


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    del ctx, params
    return types.ListToolsResult(tools=[TOOL])


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    given, envelope = dict(params.arguments or {}), dict(ctx.meta or {})["dragoman/envelope"]
    leave_trace({"input": given, "resource": envelope["resource"]})
    done = {"executed": True, "ended": given["resource_id"]}
    text = types.TextContent(type="text", text=json.dumps(done))
    return types.CallToolResult(content=[text], structured_content=done)


async def main() -> None:
    server = Server("remediation", on_list_tools=list_tools, on_call_tool=call_tool)
    config = uvicorn.Config(server.streamable_http_app(), port=int(sys.argv[1]), log_level="error")
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    asyncio.run(main())
