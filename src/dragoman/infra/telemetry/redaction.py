"""No token, key or credential leaves by a log or a trace.

A line is serialised first; a handful of substring tests tell whether it could hold a secret at all. Only then is it
read back as plain data and walked: a value under a telling key goes whole, a telling value goes wherever it stands.
"""

import re
from functools import lru_cache
from typing import Any, Final, cast

import orjson

REDACTED: Final = "[redacted]"

# Lower case. Whatever the expressions below can match contains one of these.
_MARKERS: Final = (
    "key", "token", "secret", "://", "pass", "pwd", "bearer", "eyj", "dgm_", "inv_", "lnk_",
    "authorization", "cookie", "credential", "basic", "pepper",
)  # fmt: skip

_SENSITIVE_KEY: Final = re.compile(
    r"authorization$|cookie|passw|passphrase|pwd$|secret|token|apikey|privatekey|accesskey|signingkey|credential|pepper"
)
_HARMLESS_KEYS: Final = frozenset({"apikeyid", "credentialid", "tokenid", "tokentype", "accesskeyid"})
_NOT_ALPHANUMERIC: Final = re.compile(r"[^a-z0-9]")

_BLANK: Final = r"(?:\s|%20|\+)"
_PEM: Final = r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"
_SCHEME: Final = rf"(?P<scheme>(?i:bearer|basic)){_BLANK}{{1,8}}[^\s\"',;]{{6,}}"
_JWT: Final = r"eyJ[\w-]{6,}(?:\.[\w-]*){0,4}"
_API_KEY: Final = r"dgm_[\w-]+|(?:inv|lnk)_[\w-]{20,}"
# With a colon the password may hold a raw slash, which no parser takes and every error message quotes.
_USERINFO: Final = r"://(?:[^\s\"/]{0,512}|[^\s\"/:@]{0,512}:(?!\d{1,5}/)[^\s\"]{0,512})@"
_SECRETS: Final = re.compile("|".join((f"(?s:{_PEM})", _SCHEME, _JWT, _API_KEY, f"(?P<userinfo>{_USERINFO})")))

# `password=x`, `'api_key': 'x'`, `token: x`: settings and dictionaries as messages and stack traces quote them.
# Of a container the whole rest of the line goes: where it ends is no question for an expression.
_VALUE: Final = (
    r"[\[({].*"
    r"|b?(?P<quote>\\+[\"']).{0,2000}?(?P=quote)"  # quoted once more: JSON in a JSON string, a repr in a repr
    r"|b?\"(?:[^\"\\]|\\.){0,2000}+\"|b?'(?:[^'\\]|\\.){0,2000}+'"
    r"|[^\s,;&)}\]]+"
)
_ASSIGNED: Final = re.compile(
    r"(?P<name>(?i:authorization|cookie|passw(?:or)?d|passphrase|secret|token(?!s)|api[_-]?key|private[_-]?key"
    r"|access[_-]?key(?!_id)|credentials?|pepper)(?:_(?!id\b|type\b)\w{1,16})?\\*[\"']?\s{0,4}[=:]\s{0,4})"
    rf"(?P<value>{_VALUE})"
)


def may_hold_secret(text: str) -> bool:
    """The cheap test before any work: False is certain, True is a suspicion."""
    lower = text.lower()
    for marker in _MARKERS:  # noqa: SIM110 - any() and its generator cost as much again
        if marker in lower:
            return True
    return False


# For what comes again and again: user agents, subjects, the names of fields.
known_to_hold_secret = lru_cache(maxsize=2048)(may_hold_secret)


def redact_line(line: bytes) -> bytes:
    """The same JSON object without its secrets; a line that cannot hold one comes back untouched."""
    if may_hold_secret(line.decode()):
        return orjson.dumps(redact(orjson.loads(line)))
    return line


def redact(value: Any) -> Any:
    """Plain data (what JSON can say) without its secrets, at any depth, in keys and in values."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {_redact_key(key): REDACTED if _hides(key, item) else redact(item) for key, item in items}
    if isinstance(value, list):
        return _redact_list(cast("list[Any]", value))
    return value


def redact_text(text: str) -> str:
    """A message or a stack trace without its secrets."""
    if not may_hold_secret(text):
        return text
    return _ASSIGNED.sub(_blank_value, _SECRETS.sub(_blank, text))


def _redact_key(key: str) -> str:
    return redact_text(key) if known_to_hold_secret(key) else key


def _redact_list(values: list[Any]) -> list[Any]:
    # Headers travel as pairs: ["authorization", "Basic ..."].
    if len(values) == 2 and isinstance(values[0], str) and _hides(values[0], values[1]):
        return [redact_text(values[0]), REDACTED]
    return [redact(item) for item in values]


def _hides(key: str, value: Any) -> bool:
    if value is None or isinstance(value, bool) or not _is_sensitive(key):
        return False
    # `input_tokens: 120` counts what a model read.
    return not (isinstance(value, int | float) and key.lower().endswith("tokens"))


@lru_cache(maxsize=2048)
def _is_sensitive(key: str) -> bool:
    plain = _NOT_ALPHANUMERIC.sub("", key.lower())
    return plain not in _HARMLESS_KEYS and _SENSITIVE_KEY.search(plain) is not None


def _blank(match: re.Match[str]) -> str:
    if match["userinfo"]:
        return f"://{REDACTED}@"
    return f"{match['scheme']} {REDACTED}" if match["scheme"] else REDACTED


def _blank_value(match: re.Match[str]) -> str:
    quote = match["value"][0]
    return match["name"] + (f"{quote}{REDACTED}{quote}" if quote in "\"'" else REDACTED)
