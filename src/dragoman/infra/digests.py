"""What was asked, as a number: the same for the same input, whatever order it was written in."""

import hashlib
from typing import Any, cast

import orjson
import rfc8785

from dragoman.errors import InvalidInput

_LARGEST = 2**53 - 1
_LEAST_FRACTION, _LARGEST_FRACTION = 0.001, 1e15


def digest_of(operation: str, given: Any) -> bytes:
    """The digest of an input (RFC 8785): the same input has the same digest on every door.

    Raises:
        InvalidInput: it has numbers that do not survive JSON.
    """
    return hashlib.sha256(canonical({"operation": operation, "input": given})).digest()


def canonical(value: Any) -> bytes:
    """Canonical JSON (RFC 8785).

    Raises:
        InvalidInput: it has numbers that do not survive JSON.
    """
    if _is_plain(value):
        try:
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        except orjson.JSONEncodeError:  # half of a surrogate pair, or too deep: the other one has an opinion on it
            pass
    try:
        return rfc8785.dumps(value)
    except rfc8785.CanonicalizationError:
        raise InvalidInput.of("input", "numbers must be finite, and whole numbers within 2**53") from None


def _is_plain(value: object) -> bool:
    """Check whether sorted keys and no blanks are all it takes.

    No key may sort otherwise in UTF-16, and a fraction must be one that both write without an exponent, by the fewest
    digits that tell it apart.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is dict:
        fields = cast("dict[object, object]", value)
        return all(type(key) is str and key.isascii() and _is_plain(item) for key, item in fields.items())
    if kind is list:
        return all(map(_is_plain, cast("list[object]", value)))
    if kind is float:
        fraction = cast("float", value)
        return _LEAST_FRACTION <= abs(fraction) < _LARGEST_FRACTION and not fraction.is_integer()
    return kind is int and -_LARGEST <= cast("int", value) <= _LARGEST
