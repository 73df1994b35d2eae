"""Which browser pages may call: the configured origins, and no others."""

import re
from dataclasses import dataclass

from dragoman.errors import Forbidden

_METHODS = b"GET, POST, PUT, PATCH, DELETE, OPTIONS"
_HEADERS = (
    b"authorization, content-type, x-api-key, x-request-id, x-correlation-id, x-session-id, if-match, idempotency-key, "
    b"last-event-id, a2a-version, a2a-extensions, mcp-protocol-version, mcp-method, mcp-name, mcp-session-id, "
    b"traceparent"
)
# Names that nobody can point somewhere else: this machine, and addresses that are no names.
_FIXED_HOST = re.compile(r"(localhost|\d{1,3}(\.\d{1,3}){3}|\[[0-9a-fA-F:.]+\])(:\d+)?")
_EXPOSED = (
    b"x-request-id, x-correlation-id, etag, location, retry-after, ratelimit, ratelimit-policy, x-ratelimit-limit, "
    b"x-ratelimit-remaining, x-ratelimit-reset, idempotency-replayed, www-authenticate, "
    b"mcp-session-id"
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
        if origin not in self.origins and not _is_own(origin, host):
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


def _is_own(origin: str, host: str) -> bool:
    """Whether a page of this server asks.

    Over plain HTTP a name proves nothing: somebody else's, pointed at this machine once their page is loaded, is sent
    as `Host` and as `Origin` alike (DNS rebinding). A certificate proves it.
    """
    scheme, _, asked = origin.partition("://")
    return asked == host and (scheme == "https" or _FIXED_HOST.fullmatch(host) is not None)
