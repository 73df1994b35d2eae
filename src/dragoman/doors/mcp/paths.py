"""The addresses of this door, for the OpenAPI document; the protocol's own schemas say the rest."""

from typing import Any, Final

from dragoman.doors.mcp.door import MCP_PATH
from dragoman.doors.mcp.metadata import METADATA_PATH
from dragoman.doors.mcp.wire import Json

_JSON: Final = "application/json"
_SSE: Final = "text/event-stream"
_OBJECT: Final[Json] = {"schema": {"type": "object"}}
_CALL: Final[Json] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "identity_show", "arguments": {}},
}
_ANSWER: Final[Json] = {
    "jsonrpc": "2.0",
    "id": 1,
    "result": {"content": [{"type": "text", "text": '{"subject":"ada"}'}], "structuredContent": {"subject": "ada"}},
}
_RESOURCE: Final[Json] = {
    "resource": "https://dragoman.example/mcp",
    "authorization_servers": ["https://issuer.example"],
    "scopes_supported": ["read:tasks", "write:tasks"],
}
_SESSION: Final[Json] = {
    "name": "Mcp-Session-Id",
    "in": "header",
    "description": "The session, as `initialize` has named it. Without one only POST is allowed.",
    "schema": {"type": "string"},
}
# What is wrong with a message is said by JSON-RPC, what HTTP says better by a problem document (401, 405, 413, 415).
_FAILURE: Final[Json] = {
    "description": "An error.",
    "content": {_JSON: _OBJECT, "application/problem+json": _OBJECT},
}


def _operation(name: str, summary: str, responses: Json, **more: Any) -> Json:
    return {
        "tags": ["mcp"],
        "operationId": name,
        "summary": summary,
        "responses": responses | {"default": _FAILURE},
        **more,
    }


def _metadata(name: str) -> Json:
    found = {"description": "As RFC 9728 has it.", "content": {_JSON: _OBJECT | {"example": _RESOURCE}}}
    return {"get": _operation(name, "Who gives tokens for MCP, and for what", {"200": found}, security=[])}


PATHS: Final[dict[str, Json]] = {
    MCP_PATH: {
        "post": _operation(
            "mcp",
            "MCP over streamable HTTP",
            {
                "200": {
                    "description": "As the protocol has it.",
                    "content": {_JSON: _OBJECT | {"example": _ANSWER}, _SSE: {}},
                },
                "202": {"description": "A notification was taken."},
            },
            requestBody={"required": True, "content": {_JSON: _OBJECT | {"example": _CALL}}},
        ),
        "get": _operation(
            "mcp_listen",
            "What changes, for a session of MCP",
            {"200": {"description": "Notifications, until somebody leaves.", "content": {_SSE: {}}}},
            parameters=[_SESSION],
        ),
        "delete": _operation(
            "mcp_end", "End a session of MCP", {"204": {"description": "It is over."}}, parameters=[_SESSION]
        ),
    },
    METADATA_PATH: _metadata("mcp_resource_at_root"),
    f"{METADATA_PATH}/mcp": _metadata("mcp_resource"),
}
