"""Tools from elsewhere; each set is handed to a worker or a skill like any other tool."""

from dragoman.kit.toolsets._a2a import A2aAgentTool
from dragoman.kit.toolsets._a2a_answer import RemoteAnswer
from dragoman.kit.toolsets._a2a_peer import A2aPeer, PeerTask
from dragoman.kit.toolsets._a2a_set import A2aToolset
from dragoman.kit.toolsets._mcp import McpCommand, McpToolset
from dragoman.kit.toolsets._openapi import ApiKey, OpenApiToolset

__all__ = [
    "A2aAgentTool",
    "A2aPeer",
    "A2aToolset",
    "ApiKey",
    "McpCommand",
    "McpToolset",
    "OpenApiToolset",
    "PeerTask",
    "RemoteAnswer",
]
