"""What a response says of the limits: the IETF draft's structured fields, and the names that clients know."""

from functools import lru_cache

from dragoman.infra.limits.verdict import UNLIMITED, Verdict


def limit_headers(verdict: Verdict) -> list[tuple[bytes, bytes]]:
    """The headers for the tightest limit, with `Retry-After` when it refused; none when no limit decided."""
    if verdict.limit is UNLIMITED:
        return []
    name, policy, quota = _policy(verdict.limit.name, verdict.limit.quota, verdict.limit.window_s)
    headers = [
        (b"ratelimit", b"%b;r=%d;t=%d" % (name, verdict.remaining, verdict.reset_s)),
        (b"ratelimit-policy", policy),
        (b"x-ratelimit-limit", quota),
        (b"x-ratelimit-remaining", b"%d" % verdict.remaining),
        (b"x-ratelimit-reset", b"%d" % verdict.reset_s),
    ]
    if not verdict.allowed:
        headers.append((b"retry-after", b"%d" % verdict.retry_after_s))
    return headers


@lru_cache(maxsize=1024)
def _policy(name: str, quota: int, window_s: int) -> tuple[bytes, bytes, bytes]:
    quoted = b'"%b"' % _printable(name).replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    return quoted, b"%b;q=%d;w=%d" % (quoted, quota, window_s), b"%d" % quota


def _printable(name: str) -> bytes:
    """A structured-field string holds printable ASCII only, and a header no line break."""
    return bytes(code if 0x20 <= code < 0x7F else 0x3F for code in name.encode("ascii", "replace"))
