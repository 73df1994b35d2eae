"""The addresses of this door, for the OpenAPI document."""

from typing import Any, Final

from dragoman.doors.gateway.door import CAPABILITIES_PATH, QUERY_PATH

Json = dict[str, Any]
_OBJECT: Final[Json] = {"schema": {"type": "object"}}
_FAILURE: Final[Json] = {"description": "An error.", "content": {"application/problem+json": _OBJECT}}
_ID: Final = "01890a5d-ac96-774b-bcce-b302099a8057"
_TASK: Final[Json] = {
    "task": {
        "id": _ID,
        "contextId": _ID,
        "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-11-19T05:00:00+00:00"},
        "artifacts": [{"artifactId": "result", "name": "identity_show", "parts": [{"data": {"subject": "a2a-agent"}}]}],
        "metadata": {"requestId": _ID, "usage": {"tokensUsed": 0, "responseTimeMs": 1.2}},
    }
}
_CAPABILITIES: Final[Json] = {
    "requestId": _ID,
    "agent": {"id": f"a2a-agent:{_ID}", "tenant": "demo", "scopes": ["read:costs"]},
    "limits": {"queriesPerMinute": 10},
    "query": None,
    "skills": [],
}


def _answer(description: str, example: Json) -> Json:
    return {
        "200": {"description": description, "content": {"application/json": _OBJECT | {"example": example}}},
        "default": _FAILURE,
    }


PATHS: Final[dict[str, Json]] = {
    QUERY_PATH: {
        "post": {
            "tags": ["gateway"],
            "operationId": "gateway_query",
            "summary": "Run a query as a registered agent, by client certificate and key",
            "security": [{"apiKey": []}],
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": _OBJECT | {"example": {"tool": "identity_show", "arguments": {}}},
                },
            },
            "responses": _answer("An A2A task that is completed; its artifact holds the output.", _TASK),
        }
    },
    CAPABILITIES_PATH: {
        "get": {
            "tags": ["gateway"],
            "operationId": "gateway_capabilities",
            "summary": "Say what a registered agent may ask, and how often",
            "security": [{"apiKey": []}],
            "responses": _answer("Its identity, its limits, and the tools with their schemas.", _CAPABILITIES),
        }
    },
}
