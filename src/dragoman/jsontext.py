"""JSON that somebody sent, read for every door alike: what could not be kept, hashed or written again is refused.

Both parsers refuse what is not JSON in UTF-8: a byte order mark, halves of surrogate pairs, NaN. Of a name that stands
twice in an object the last one counts.
"""

import re
from collections.abc import Sequence
from math import isfinite
from typing import Any, Final, cast

import orjson
from pydantic_core import from_json

from dragoman.errors import FieldError, InvalidInput

# Deeper JSON is refused by some readers (pydantic at 200, orjson writes 254), and what is kept is wrapped again.
MOST_DEPTH: Final = 100
# Checking and hashing a body takes about a microsecond a value, and nobody else is served meanwhile.
MOST_VALUES: Final = 100_000
# Whole numbers beyond this are not the same in every program that reads JSON (RFC 8785).
GREATEST: Final = 2**53 - 1
_LONGEST_NAME: Final = 100
_LONG_NUMBER: Final = re.compile(rb"[0-9](?:[0-9]{15}|[eE][+]?[0-9]{3})")


class NotJson(InvalidInput):
    """The text is not JSON that is read here."""

    def __init__(self, reason: str) -> None:
        super().__init__([FieldError(field="body", message=f"must be JSON: {reason}")])
        self.reason = reason


class UnfitJson(InvalidInput):
    """The text is JSON that holds what `check_values` refuses; its `value` has the id to answer with."""

    def __init__(self, errors: Sequence[FieldError], value: Any) -> None:
        super().__init__(errors)
        self.value = value


def parse_json(text: bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        NotJson: it is not JSON, or far too deep.
        UnfitJson: it holds what `check_values` refuses.
    """
    plain = is_plain(text)
    try:
        # orjson turns whole numbers of more than 64 bits into others.
        value = orjson.loads(text) if plain else from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise NotJson(str(error)) from None
    if not plain:
        try:
            check_values(value)
        except InvalidInput as error:
            raise UnfitJson([FieldError(**one) for one in error.details["errors"]], value) from None
    return value


def rpc_id_of(value: Any) -> str | int | float | None:
    """Return the id of a JSON-RPC request that can be said again; None where there is none."""
    rpc_id = cast("dict[str, Any]", value).get("id") if isinstance(value, dict) else None
    if isinstance(rpc_id, bool) or not isinstance(rpc_id, str | int | float):
        return None
    return rpc_id if isinstance(rpc_id, str) or -GREATEST <= rpc_id <= GREATEST else None


def is_plain(text: bytes) -> bool:
    """Return whether no value of a JSON text can be one that `check_values` refuses; a wrong no costs only time."""
    return (
        len(text) < MOST_VALUES
        and text.count(b"[") + text.count(b"{") <= MOST_DEPTH
        and b"\\u0000" not in text
        and _LONG_NUMBER.search(text) is None
    )


def check_values(value: Any) -> None:
    """Refuse what JSON can say and neither PostgreSQL nor canonical JSON can, and what is too deep or too much.

    Raises:
        InvalidInput: there is such a value; it names the field of the outermost object.
    """
    given: Any = cast("dict[str, Any]", value) if isinstance(value, dict) else {"body": value}
    waiting: list[tuple[str, Any, int]] = [(name, inner, 1) for name, inner in given.items()]
    waiting += [("body", name, 1) for name in given]
    seen = 0
    while waiting:
        field, value, depth = waiting.pop()
        if isinstance(value, str):
            _check_text(field, value)
        elif isinstance(value, int | float):
            if not -GREATEST <= value <= GREATEST and not (isinstance(value, float) and isfinite(value)):
                raise InvalidInput.of(_shown(field), "must be a finite number, and a whole one within 2**53")
        elif isinstance(value, list | dict):
            inner = cast("list[Any] | dict[str, Any]", value)
            seen += len(inner)
            if seen > MOST_VALUES:
                raise InvalidInput.of(_shown(field), f"must not hold more than {MOST_VALUES} values")
            depth += 1
            if depth > MOST_DEPTH:
                raise InvalidInput.of(_shown(field), f"must not be nested deeper than {MOST_DEPTH} levels")
            waiting.extend([(field, item, depth) for item in inner])
            if isinstance(inner, dict):
                waiting.extend([(field, item, depth) for item in inner.values()])


def _check_text(field: str, text: str) -> None:
    if "\x00" in text:
        raise InvalidInput.of(_shown(field), "must not contain the control character U+0000")
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput.of(_shown(field), "must be Unicode text, without halves of surrogate pairs") from None


def _shown(field: str) -> str:
    return field.encode(errors="replace").decode()[:_LONGEST_NAME]
