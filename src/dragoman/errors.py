"""One tree of errors; each door decides how a kind looks on its wire.

DragomanError
├── InvalidInput            INVALID           the caller can correct it
├── Unauthenticated         UNAUTHENTICATED   who are you?
├── Forbidden               FORBIDDEN         not you
├── NotFound                NOT_FOUND         not there, or not yours: the two look alike
├── Conflict                CONFLICT          the world is not as the request assumes
│   └── IdempotencyConflict
├── Stale                   STALE             the If-Match of the request is no longer true
├── RateLimited             LIMITED           later
├── TooLarge                TOO_LARGE
├── UnsupportedMedia        UNSUPPORTED
├── MethodNotAllowed        METHOD            the address exists, but not for this verb
├── UpstreamUnavailable     UNAVAILABLE       something we need is away
├── ExtraMissing            UNAVAILABLE       not installed
├── TimedOut                TIMEOUT
└── Internal                INTERNAL          our fault; the log says more
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import BaseModel


class Kind(StrEnum):
    """What sort of thing went wrong; every door maps each of these to its wire."""

    INVALID = "invalid"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    STALE = "stale"
    LIMITED = "limited"
    TOO_LARGE = "too_large"
    UNSUPPORTED = "unsupported"
    METHOD = "method"
    UNAVAILABLE = "unavailable"
    TIMEOUT = "timeout"
    INTERNAL = "internal"


class FieldError(BaseModel, frozen=True):
    """One thing wrong with one field, in words a person can act on."""

    field: str
    message: str


class DragomanError(Exception):
    """The root: `kind` picks the wire status, `code` is API for ever, the message is for people.

    `retry_after_s` says when another attempt is worth its while, where that is known: whole seconds, as on the wire.
    """

    kind: ClassVar[Kind] = Kind.INTERNAL
    code: ClassVar[str] = "INTERNAL_ERROR"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = details
        self.retry_after_s: int | None = None
        # Set once the log has it: an error passes several places that would log it.
        self.logged = False


class InvalidInput(DragomanError):
    """The input breaks a rule; `details.errors` names every field at once."""

    kind, code = Kind.INVALID, "INVALID_PARAMS"

    def __init__(self, errors: Sequence[FieldError], message: str | None = None) -> None:
        named = ", ".join(sorted({error.field for error in errors if error.field}))
        super().__init__(message or (f"invalid input: {named}" if named else "invalid input"))
        self.details["errors"] = [error.model_dump() for error in errors]

    @classmethod
    def of(cls, field: str, message: str) -> "InvalidInput":
        """One field, one complaint."""
        return cls([FieldError(field=field, message=message)])


class Unauthenticated(DragomanError):
    """No valid credentials. `reason` is for the log alone: the caller is never told why."""

    kind, code = Kind.UNAUTHENTICATED, "UNAUTHENTICATED"

    def __init__(self, reason: str, *, presented: bool = True) -> None:
        super().__init__("valid credentials are required")
        self.reason = reason
        self.presented = presented


class Forbidden(DragomanError):
    """The caller is known and may not do this."""

    kind, code = Kind.FORBIDDEN, "UNAUTHORIZED"


class NotFound(DragomanError):
    """It does not exist, or it belongs to another tenant."""

    kind, code = Kind.NOT_FOUND, "NOT_FOUND"

    def __init__(self, noun: str, ref: object) -> None:
        super().__init__(f"{noun} {str(ref)!r} not found")


class Conflict(DragomanError):
    """The request assumes something that is not so (a free slug, an active tenant)."""

    kind, code = Kind.CONFLICT, "CONFLICT"


class IdempotencyConflict(Conflict):
    """The idempotency key was used before with another input."""

    code = "IDEMPOTENCY_CONFLICT"

    def __init__(self, key: str, **details: Any) -> None:
        super().__init__(f"idempotency key {key!r} was already used with a different input", key=key, **details)


class Stale(DragomanError):
    """The thing was changed since the caller read it."""

    kind, code = Kind.STALE, "PRECONDITION_FAILED"

    def __init__(self, noun: str, *, expected: int, current: int) -> None:
        super().__init__(f"the {noun} has changed since it was read", expected=expected, current=current)


class RateLimited(DragomanError):
    """One of the caller's limits is used up; `retry_after_s` says when to come back."""

    kind, code, retryable = Kind.LIMITED, "RATE_LIMITED", True

    def __init__(self, limit: str, *, retry_after_s: int) -> None:
        super().__init__(f"rate limit {limit!r} exceeded; try again in {retry_after_s} s", limit=limit)
        self.retry_after_s = retry_after_s


class TooLarge(DragomanError):
    """The request is larger than the server takes."""

    kind, code = Kind.TOO_LARGE, "PAYLOAD_TOO_LARGE"

    def __init__(self, *, limit_bytes: int) -> None:
        super().__init__(f"the body exceeds {limit_bytes} bytes", limit_bytes=limit_bytes)


class UnsupportedMedia(DragomanError):
    """The body is of a type that this address does not read."""

    kind, code = Kind.UNSUPPORTED, "UNSUPPORTED_MEDIA_TYPE"

    def __init__(self, given: str, *, expected: str) -> None:
        super().__init__(f"content type {given!r} is not supported here; send {expected}", expected=expected)


class MethodNotAllowed(DragomanError):
    """The address exists, but not for this verb."""

    kind, code = Kind.METHOD, "METHOD_NOT_ALLOWED"

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        self.allowed = ", ".join(sorted(allowed))
        super().__init__(f"{method[:20]} is not possible here; use {self.allowed}", allowed=self.allowed)


class UpstreamUnavailable(DragomanError):
    """Something this server needs does not answer."""

    kind, code, retryable = Kind.UNAVAILABLE, "UPSTREAM_UNAVAILABLE", True

    def __init__(self, upstream: str, *, retry_after_s: int | None = None) -> None:
        wait_s = 5 if retry_after_s is None else retry_after_s
        super().__init__(f"{upstream} is unavailable; try again in {wait_s} s", upstream=upstream)
        self.retry_after_s = wait_s
        # Else it is only our guess, and a retry policy has a better one.
        self.asked_for = retry_after_s is not None


class ExtraMissing(DragomanError):
    """The server was installed without the libraries that this needs."""

    kind, code = Kind.UNAVAILABLE, "EXTRA_MISSING"

    def __init__(self, extra: str) -> None:
        super().__init__(f"this server lacks the extra {extra!r}; install dragoman[{extra}]", extra=extra)
        self.retry_after_s = 3600


class TimedOut(DragomanError):
    """The work took longer than a request may; it was stopped and nothing of it was kept."""

    kind, code, retryable = Kind.TIMEOUT, "TIMEOUT", True

    def __init__(self, *, after_s: float) -> None:
        super().__init__(f"the request took longer than {after_s:g} s and was stopped", after_s=after_s)


class Internal(DragomanError):
    """What an unknown exception looks like from outside."""

    def __init__(self) -> None:
        super().__init__("something went wrong on our side; the request id finds it in the log")
