"""Any event as one line of JSON: whatever was put into it, something readable comes out."""

from collections.abc import Callable
from typing import Any, Final, cast

import orjson

_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z
_MAX_DEPTH: Final = 32


def encode(event: dict[str, Any]) -> bytes:
    """One line of JSON, without the newline. It never raises."""
    try:
        return orjson.dumps(event, _describe, _OPTIONS)
    except (TypeError, ValueError, RecursionError):  # lone surrogates, huge integers, cycles
        return orjson.dumps(_plain(event, 0))


def _describe(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, set | frozenset):
        return list(cast("set[Any]", value))
    return _words(repr if isinstance(value, BaseException) else str, value)


def _plain(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | float):
        return value
    if depth >= _MAX_DEPTH:
        return "..."
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {_words(str, key): _plain(item, depth + 1) for key, item in items}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1) for item in cast("list[Any]", value)]
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "backslashreplace")
    return _words(str, value)


def _words(how: Callable[[Any], str], value: Any) -> str:
    try:
        return how(value).encode("utf-8", "backslashreplace").decode()
    except Exception:  # noqa: BLE001 - a guard: any object may be logged, and any object's repr may be broken
        return f"<{type(value).__name__}>"
