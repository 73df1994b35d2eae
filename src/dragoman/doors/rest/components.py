"""What many addresses share in the OpenAPI document: headers, parameters, ways to sign in, and the errors."""

from typing import Any, Final

import orjson

from dragoman import errors
from dragoman.doors.rest.examples import ID, TIME
from dragoman.infra.edge import STATUS, problem
from dragoman.infra.edge.cors import ForeignOrigin

Json = dict[str, Any]
PROBLEM_TYPE: Final = "application/problem+json"
_NAMES: Final = {status: title.replace(" ", "") for status, title in STATUS.values()}


def ref(section: str, name: str) -> Json:
    """A reference into the components."""
    return {"$ref": f"#/components/{section}/{name}"}


def header_refs(*names: str) -> Json:
    """The headers of a response."""
    return {name: ref("headers", name) for name in names}


def error_ref(status: int) -> Json:
    """The shared response for a status."""
    return ref("responses", _NAMES[status])


def _header(description: str, example: str | int, kind: str = "string") -> Json:
    return {"description": description, "schema": {"type": kind}, "example": example}


LIMIT_HEADERS: Final = (
    "RateLimit",
    "RateLimit-Policy",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
)


def headers() -> Json:
    """Every header that a response of ours may carry and a client may care about."""
    return {
        "ETag": _header("The version of what is shown; send it back as `If-Match`.", '"v3"'),
        "Idempotency-Replayed": _header("`true` when this is the answer to an earlier request with this key.", "true"),
        "Location": _header("Where it is found.", f"/api/tenant/{ID}"),
        "RateLimit": _header("The tightest limit: what is left of it, and when it is whole again.", '"user";r=87;t=12'),
        "RateLimit-Policy": _header("That limit: its quota and its window in seconds.", '"user";q=100;w=60'),
        "Retry-After": _header("Seconds to wait before trying again.", 12, "integer"),
        "WWW-Authenticate": _header("How to sign in.", 'Bearer realm="dragoman"'),
        "X-Correlation-ID": _header("The correlation id of the request, when it had one.", "order-4711"),
        "X-RateLimit-Limit": _header("The quota of the tightest limit.", 100, "integer"),
        "X-RateLimit-Remaining": _header("What is left of it.", 87, "integer"),
        "X-RateLimit-Reset": _header("Seconds until it is whole again.", 12, "integer"),
        "X-Request-ID": _header("Finds the request in the log.", ID),
    }


def parameters() -> Json:
    """Header parameters that operations refer to. An id that cannot be used is ignored, never refused.

    They have no examples: Swagger UI would send those with every request that is tried out.
    """
    return {
        "RequestId": {
            "name": "X-Request-ID",
            "in": "header",
            "description": "The correlation id, where X-Correlation-ID is not sent. The server names every request "
            "itself, with a UUID.",
            "schema": {"type": "string"},
        },
        "CorrelationId": {
            "name": "X-Correlation-ID",
            "in": "header",
            "description": "The client's own id, for one request or several that belong together: it is in the answer, "
            "the log and the audit trail (letters, digits and `._:-`, at most 128; anything else is ignored).",
            "schema": {"type": "string"},
        },
        "IdempotencyKey": {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "Makes a repetition harmless: the same key with the same input gets the first answer again, "
            "without its secrets.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]([ -~]*[!-~])?$"},
        },
        "IfMatch": {
            "name": "If-Match",
            "in": "header",
            "description": 'The `ETag` that was read, such as `"v3"`: refused when the thing has moved on since.',
            "schema": {"type": "string", "pattern": '^(W/)?"?v?[1-9][0-9]{0,8}"?$'},
        },
    }


def security_schemes() -> Json:
    """How a caller says who it is."""
    return {
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": "A token of the configured issuer; an invitation code, to accept the invitation.",
        },
        "apiKey": {
            "type": "apiKey",
            "in": "header",
            "name": "X-API-Key",
            "description": "The key of a program, as `key.create` gave it.",
        },
    }


def schemas() -> Json:
    """The shapes around what operations give: the two kinds of `meta`, and the problem document (RFC 9457)."""
    meta: Json = {
        "requestId": {"type": "string", "description": "Finds the request in the log.", "examples": [ID]},
        "timestamp": {"type": "string", "format": "date-time", "examples": [TIME]},
    }
    cursor: Json = {
        "type": ["string", "null"],
        "description": "Give it as `cursor` to get the next page; null on the last one.",
        "examples": [ID],
    }
    paged = {**meta, "nextCursor": cursor}
    return {
        "Meta": {"type": "object", "required": list(meta), "properties": meta},
        "PageMeta": {"type": "object", "required": list(paged), "properties": paged},
        "FieldError": _model(field={"type": "string"}, message={"type": "string"}),
        "Problem": _problem(),
    }


def _model(**properties: Json) -> Json:
    return {"type": "object", "required": list(properties), "properties": properties}


def _problem() -> Json:
    shape = _model(
        type={"type": "string", "description": "`urn:dragoman:error:` and the code."},
        title={"type": "string"},
        status={"type": "integer", "minimum": 400, "maximum": 599},
        detail={"type": "string", "description": "For people."},
        instance={"type": "string", "description": "The request, as a URN."},
        code={"type": "string", "description": "For programs; never changes its meaning."},
        retryable={"type": "boolean", "description": "Whether the same request may succeed later."},
        requestId={"type": "string"},
    )
    shape["description"] = "What went wrong (RFC 9457)."
    shape["properties"] |= {
        "errors": {"type": "array", "items": ref("schemas", "FieldError"), "description": "Every field that is wrong."},
        "details": {"type": "object", "additionalProperties": True, "description": "More, depending on the code."},
    }
    return shape


def responses() -> Json:
    """One response a status, with what the server really sends as its examples."""
    made: Json = {}
    for status, (description, samples) in _errors().items():
        bodies = {type(sample).__name__: {"value": orjson.loads(problem(sample, ID)[2])} for sample in samples}
        names = ["X-Request-ID"]
        if status == 401:
            names.append("WWW-Authenticate")
        if status in (429, 503):
            names.append("Retry-After")
        if status == 429:
            names.extend(LIMIT_HEADERS)
        made[_NAMES[status]] = {
            "description": description,
            "headers": header_refs(*names),
            "content": {PROBLEM_TYPE: {"schema": ref("schemas", "Problem"), "examples": bodies}},
        }
    return made


def _errors() -> dict[int, tuple[str, list[errors.DragomanError]]]:
    wrong = errors.FieldError(field="name", message="String should have at least 1 character")
    return {
        400: ("The input breaks a rule; every wrong field is named.", [errors.InvalidInput([wrong])]),
        401: ("No valid credentials.", [errors.Unauthenticated("none", presented=False)]),
        403: (
            "The caller may not do this, or a browser asks from a foreign origin.",
            [
                errors.Forbidden("tenant.create needs the permission manage:tenants", permission="manage:tenants"),
                ForeignOrigin("https://elsewhere.example"),
            ],
        ),
        404: ("It does not exist, or it belongs to another tenant.", [errors.NotFound("tenant", "acme")]),
        409: (
            "The world is not as the request assumes.",
            [
                errors.Conflict("slug 'acme' is taken", field="slug", reason="SLUG_TAKEN"),
                errors.IdempotencyConflict("f1c7a8e2-invite-ada"),
            ],
        ),
        412: ("It was changed since it was read.", [errors.Stale("tenant", expected=3, current=4)]),
        413: ("The body is larger than the server takes.", [errors.TooLarge(limit_bytes=1_048_576)]),
        415: ("The body is not JSON.", [errors.UnsupportedMedia("text/plain", expected="application/json")]),
        429: ("A rate limit is used up.", [errors.RateLimited("user", retry_after_s=12)]),
        500: ("Our fault; the request id finds it in the log.", [errors.Internal()]),
        503: ("Something that this server needs is away.", [errors.UpstreamUnavailable("database", retry_after_s=12)]),
        504: ("It took too long and was stopped.", [errors.TimedOut(after_s=30)]),
    }
