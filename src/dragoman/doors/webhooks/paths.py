"""The addresses of this door, for the OpenAPI document."""

from typing import Any, Final

from dragoman.doors.webhooks.door import PREFIX

Json = dict[str, Any]
_OBJECT: Final[Json] = {"schema": {"type": "object"}}
_FAILURE: Final[Json] = {"description": "An error.", "content": {"application/problem+json": _OBJECT}}
_KEPT: Final[Json] = {
    "description": "It is durable; a duplicate of an earlier one changes nothing.",
    "content": {
        "application/json": _OBJECT
        | {
            "example": {
                "success": True,
                "data": {"id": "01890a5d-ac96-774b-bcce-b302099a8057", "duplicate": False},
                "meta": {"requestId": "01890a5d-ac96-774b-bcce-b302099a8058", "timestamp": "2026-11-16T05:00:00+00:00"},
            }
        }
    },
}
_BODY: Final[Json] = {
    "required": True,
    "content": {"application/json": _OBJECT | {"example": {"type": "cost.export_ready", "data": {}}}},
}
_PROVIDER: Final[Json] = {
    "name": "provider",
    "in": "path",
    "required": True,
    "schema": {"type": "string"},
    "example": "aws",
}
_SOURCE: Final[Json] = {
    "name": "source",
    "required": True,
    "schema": {"type": "string", "format": "uuid"},
    "example": "01890a5d-ac96-774b-bcce-b302099a8057",
}


def _post(name: str, place: str) -> Json:
    return {
        "post": {
            "tags": ["webhooks"],
            "operationId": name,
            "summary": "Take a webhook of a registered source or signing provider",
            "security": [],
            "parameters": [_PROVIDER, _SOURCE | {"in": place}],
            "requestBody": _BODY,
            "responses": {"202": _KEPT, "default": _FAILURE},
        }
    }


PATHS: Final[dict[str, Json]] = {
    f"{PREFIX}{{provider}}": _post("webhook_by_query", "query"),
    f"{PREFIX}{{provider}}/{{source}}": _post("webhook", "path"),
}
