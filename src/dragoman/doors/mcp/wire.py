"""Results and errors as MCP shows them: a tool that failed has answered, a request that is wrong has not."""

from typing import Any, Final, cast

import orjson

from dragoman.context import current_request
from dragoman.errors import DragomanError, InvalidInput, Kind
from dragoman.jsontext import NotJson

Json = dict[str, Any]
# Under this name what the door was given when it counted a message goes with its request through the SDK.
ADMITTED_KEY: Final = "dragoman.mcp.admitted"
# JSON-RPC's own codes, and the one of its range for servers that says no more than "not now" or "not you".
PARSE_ERROR: Final = -32700
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REFUSED: Final = -32000
_CODES: Final = {Kind.INVALID: INVALID_PARAMS, Kind.NOT_FOUND: INVALID_PARAMS, Kind.INTERNAL: INTERNAL_ERROR}


def read_object(text: bytes) -> Json:
    """The object that the text is; an empty one where it is none, for what is wrong with it is said elsewhere."""
    try:
        found: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return cast("Json", found) if isinstance(found, dict) else {}


def is_response(message: Json) -> bool:
    """Whether a message answers one of ours."""
    return "method" not in message and ("result" in message or "error" in message)


def succeeded(text: str, structured: Json, *, meta: Json | None = None) -> Json:
    """The result of a tool that did its work: for programs, and the same as text for models."""
    result: Json = {"content": [{"type": "text", "text": text}], "structuredContent": structured, "isError": False}
    return result | {"_meta": meta} if meta else result


def failed(error: DragomanError) -> Json:
    """The result of a tool that failed, in words that a model can act on."""
    said = f"{error.code}: {error.message}"
    if isinstance(error, InvalidInput):
        said = "\n".join([said, *(f"- {one['field']}: {one['message']}" for one in error.details["errors"])])
    return {
        "content": [{"type": "text", "text": said}],
        "structuredContent": {"error": error_json(error)},
        "isError": True,
    }


def error_json(error: DragomanError) -> Json:
    """An error as every result and every JSON-RPC error of this door carries it; the edge logs it."""
    told: Json = {
        "code": error.code,
        "message": error.message,
        "details": orjson.loads(orjson.dumps(error.details, default=str)),
        "retryable": error.retryable,
    }
    if (request := current_request()) is not None:
        told["request_id"] = request.id
        request.refusal = error
    if (retry_after_s := getattr(error, "retry_after_s", None)) is not None:
        told["retry_after_s"] = retry_after_s
    return told


def rpc_code(error: DragomanError) -> int:
    """The code of JSON-RPC for it."""
    return PARSE_ERROR if isinstance(error, NotJson) else _CODES.get(error.kind, REFUSED)
