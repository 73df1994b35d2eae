"""Errors on HTTP: problem documents (RFC 9457), the same shape for every one."""

from typing import Any, Final

import orjson

from dragoman.errors import DragomanError, Kind, MethodNotAllowed, Unauthenticated

STATUS: Final[dict[Kind, tuple[int, str]]] = {
    Kind.INVALID: (400, "Bad Request"),
    Kind.UNAUTHENTICATED: (401, "Unauthorized"),
    Kind.FORBIDDEN: (403, "Forbidden"),
    Kind.NOT_FOUND: (404, "Not Found"),
    Kind.METHOD: (405, "Method Not Allowed"),
    Kind.CONFLICT: (409, "Conflict"),
    Kind.STALE: (412, "Precondition Failed"),
    Kind.TOO_LARGE: (413, "Content Too Large"),
    Kind.UNSUPPORTED: (415, "Unsupported Media Type"),
    Kind.LIMITED: (429, "Too Many Requests"),
    Kind.INTERNAL: (500, "Internal Server Error"),
    Kind.UNAVAILABLE: (503, "Service Unavailable"),
    Kind.TIMEOUT: (504, "Gateway Timeout"),
}
Headers = list[tuple[bytes, bytes]]
# On every response, whoever gives it.
SECURITY_HEADERS: Final[Headers] = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
]


def problem(error: DragomanError, request_id: str) -> tuple[int, Headers, bytes]:
    """Status, headers and body. `code` is for programs, `detail` for people, `instance` finds the log."""
    status, title = STATUS[error.kind]
    body: dict[str, Any] = {
        "type": f"urn:dragoman:error:{error.code}",
        "title": title,
        "status": status,
        "detail": error.message,
        "instance": f"urn:uuid:{request_id}",
        "code": error.code,
        "retryable": error.retryable,
        "requestId": request_id,
    }
    details = dict(error.details)
    if (errors := details.pop("errors", None)) is not None:
        body["errors"] = errors
    if details:
        body["details"] = details
    headers: Headers = [(b"content-type", b"application/problem+json"), (b"cache-control", b"no-store")]
    if isinstance(error, Unauthenticated):
        # RFC 6750: an error code only when something was presented, and never which check it failed.
        challenge = b'Bearer realm="dragoman"' + (b', error="invalid_token"' if error.presented else b"")
        headers.append((b"www-authenticate", challenge))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", error.allowed.encode()))
    if (retry_after_s := getattr(error, "retry_after_s", None)) is not None:
        headers.append((b"retry-after", str(retry_after_s).encode()))
    payload = orjson.dumps(body, default=str)
    headers.append((b"content-length", str(len(payload)).encode()))
    return status, headers, payload
