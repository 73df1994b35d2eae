"""Tools from elsewhere; each set is handed to a worker or a skill like any other tool."""

from dragoman.kit.toolsets._mcp import McpCommand, McpToolset
from dragoman.kit.toolsets._openapi import ApiKey, OpenApiToolset

__all__ = ["ApiKey", "McpCommand", "McpToolset", "OpenApiToolset"]
