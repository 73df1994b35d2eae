"""Which browser pages may call: the configured origins, and no others."""

from dataclasses import dataclass

from dragoman.errors import Forbidden

_METHODS = b"GET, POST, PUT, PATCH, DELETE, OPTIONS"
_HEADERS = (
    b"authorization, content-type, x-api-key, x-request-id, x-correlation-id, x-session-id, if-match, idempotency-key, "
    b"last-event-id, a2a-version, a2a-extensions, mcp-protocol-version, mcp-session-id, traceparent"
)
_EXPOSED = (
    b"x-request-id, x-correlation-id, etag, location, retry-after, ratelimit, ratelimit-policy, x-ratelimit-limit, "
    b"x-ratelimit-remaining, x-ratelimit-reset, idempotency-replayed, www-authenticate"
)


class ForeignOrigin(Forbidden):
    """A page of an origin that is not configured asked through a browser."""

    def __init__(self, origin: str) -> None:
        super().__init__("this origin is not allowed", reason="FOREIGN_ORIGIN")
        self.origin = origin


@dataclass(frozen=True, slots=True)
class Cors:
    """The answer to a browser; pages that this server serves itself are at home."""

    origins: frozenset[str]

    def check(self, origin: str, host: str) -> None:
        """Refuse a foreign origin.

        Raises:
            ForeignOrigin: it is neither configured nor our own.
        """
        if origin not in self.origins and origin.partition("://")[2] != host:
            raise ForeignOrigin(origin)

    def headers(self, origin: str) -> list[tuple[bytes, bytes]]:
        """What lets the page read the response."""
        if origin not in self.origins:
            return []
        return [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-expose-headers", _EXPOSED),
            (b"vary", b"origin"),
        ]

    def preflight(self, origin: str) -> list[tuple[bytes, bytes]]:
        """What the page may do."""
        return [
            *self.headers(origin),
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", _HEADERS),
            (b"access-control-max-age", b"600"),
            (b"content-length", b"0"),
        ]
