"""Errors on the A2A wire: a total table from kinds, and the protocol's own names where it has one."""

from dataclasses import dataclass
from typing import Any, Final, cast

from dragoman.context import current_request
from dragoman.errors import DragomanError, InvalidInput, Kind
from dragoman.services.push.errors import PushConfigNotFound
from dragoman.services.tasks.errors import (
    NotCancelable,
    StateTooLarge,
    TaskBusy,
    TaskClosed,
    TaskNotFound,
    ThreadExpired,
)
from dragoman.services.workers.profile import ProfileVersionUnsupported

Json = dict[str, Any]
_DOMAIN: Final = "a2a-protocol.org"
_OUR_DOMAIN: Final = "dragoman"


class ParseFailed(DragomanError):
    """The body is not JSON."""

    kind, code = Kind.INVALID, "PARSE_ERROR"


class InvalidRequest(DragomanError):
    """The body is JSON, but no JSON-RPC request."""

    kind, code = Kind.INVALID, "INVALID_REQUEST"


class MethodNotFound(DragomanError):
    """The protocol has no such method."""

    kind, code = Kind.NOT_FOUND, "METHOD_NOT_FOUND"

    def __init__(self, method: str) -> None:
        super().__init__(f"there is no method {method[:100]!r}")


class UnsupportedOperation(DragomanError):
    """What is asked for cannot be done with this task."""

    kind, code = Kind.CONFLICT, "UNSUPPORTED_OPERATION"


class PushNotSupported(DragomanError):
    """The plain paths of 0.1 offer no push notifications."""

    kind, code = Kind.CONFLICT, "PUSH_NOTIFICATION_NOT_SUPPORTED"

    def __init__(self) -> None:
        super().__init__("push notifications are not supported; stream the task, or poll it")


class ContentTypeNotSupported(DragomanError):
    """A media type that the agent neither reads nor writes."""

    kind, code = Kind.UNSUPPORTED, "CONTENT_TYPE_NOT_SUPPORTED"


class VersionNotSupported(DragomanError):
    """A version of the protocol that is not served."""

    kind, code = Kind.INVALID, "VERSION_NOT_SUPPORTED"

    def __init__(self, version: str, served: tuple[str, ...]) -> None:
        super().__init__(f"A2A {version[:20]!r} is not served; use {' or '.join(served)}", served=", ".join(served))


@dataclass(frozen=True, slots=True)
class Wire:
    """How an error looks: the code of JSON-RPC, the status of HTTP and of gRPC, and A2A's own name if it has one.

    What concerns the connection and not the call (`by_http`) is said by the HTTP status with JSON-RPC too.
    """

    code: int
    http: int
    grpc: str
    reason: str | None = None
    by_http: bool = False


_REFUSED: Final = -32000  # of JSON-RPC's range for servers, the one that A2A leaves free
BY_KIND: Final[dict[Kind, Wire]] = {
    Kind.INVALID: Wire(-32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
    Kind.UNAUTHENTICATED: Wire(_REFUSED, 401, "UNAUTHENTICATED", by_http=True),
    Kind.FORBIDDEN: Wire(_REFUSED, 403, "PERMISSION_DENIED", by_http=True),
    Kind.NOT_FOUND: Wire(-32602, 404, "NOT_FOUND"),
    Kind.METHOD: Wire(-32601, 405, "UNIMPLEMENTED", by_http=True),
    Kind.CONFLICT: Wire(_REFUSED, 409, "ABORTED"),
    Kind.STALE: Wire(_REFUSED, 412, "FAILED_PRECONDITION"),
    Kind.TOO_LARGE: Wire(_REFUSED, 413, "RESOURCE_EXHAUSTED", by_http=True),
    Kind.UNSUPPORTED: Wire(-32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"),
    Kind.LIMITED: Wire(_REFUSED, 429, "RESOURCE_EXHAUSTED", by_http=True),
    Kind.INTERNAL: Wire(-32603, 500, "INTERNAL", "INTERNAL_ERROR"),
    Kind.UNAVAILABLE: Wire(_REFUSED, 503, "UNAVAILABLE", by_http=True),
    Kind.TIMEOUT: Wire(_REFUSED, 504, "DEADLINE_EXCEEDED", by_http=True),
}
_UNSUPPORTED: Final = Wire(-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION")
BY_CLASS: Final[dict[type[DragomanError], Wire]] = {
    TaskNotFound: Wire(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
    PushConfigNotFound: Wire(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
    NotCancelable: Wire(-32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
    PushNotSupported: Wire(-32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    UnsupportedOperation: _UNSUPPORTED,
    TaskClosed: _UNSUPPORTED,
    TaskBusy: _UNSUPPORTED,
    ThreadExpired: _UNSUPPORTED,
    StateTooLarge: Wire(-32602, 413, "RESOURCE_EXHAUSTED"),
    ProfileVersionUnsupported: Wire(-32602, 400, "FAILED_PRECONDITION"),
    VersionNotSupported: Wire(-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"),
    ParseFailed: Wire(-32700, 400, "INVALID_ARGUMENT", "PARSE_ERROR"),
    InvalidRequest: Wire(-32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST"),
    MethodNotFound: Wire(-32601, 404, "UNIMPLEMENTED", "METHOD_NOT_FOUND"),
}


def wire_of(error: DragomanError) -> Wire:
    """How it looks; every error has a look, by its class or by its kind."""
    return BY_CLASS.get(type(error)) or BY_KIND[error.kind]


def to_rpc_error(error: DragomanError) -> Json:
    """The `error` of a JSON-RPC response."""
    return {"code": wire_of(error).code, "message": error.message, "data": details_of(error)}


def to_http_error(error: DragomanError) -> tuple[int, Json]:
    """Status and body of the HTTP binding (AIP-193)."""
    wire = wire_of(error)
    body = {"code": wire.http, "status": wire.grpc, "message": error.message, "details": details_of(error)}
    return wire.http, {"error": body}


def details_of(error: DragomanError) -> list[Json]:
    """What programs read of an error: `google.rpc` types in ProtoJSON."""
    reason = wire_of(error).reason
    # Google's type takes text only. Our code goes along where the protocol's name hides it.
    told = {name: _text(value) for name, value in error.details.items() if name != "errors"}
    if reason not in (None, error.code):
        told["code"] = error.code
    info: Json = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason or error.code,
        "domain": _DOMAIN if reason else _OUR_DOMAIN,
    }
    if told:
        info["metadata"] = told
    details = [info]
    if isinstance(error, InvalidInput) and error.details["errors"]:
        violations = [{"field": one["field"], "description": one["message"]} for one in error.details["errors"]]
        details.append({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations})
    if (request := current_request()) is not None:
        details.append({"@type": "type.googleapis.com/google.rpc.RequestInfo", "requestId": request.id})
    return details


def _text(value: Any) -> str:
    return ", ".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value)
