"""What was asked, as a number: the same for the same input, whatever order it was written in."""

import hashlib
from typing import Any

import rfc8785

from dragoman.errors import InvalidInput


def digest_of(operation: str, given: Any) -> bytes:
    """The digest of an input (RFC 8785): the same input has the same digest on every door.

    Raises:
        InvalidInput: it has numbers that do not survive JSON.
    """
    try:
        text = rfc8785.dumps({"operation": operation, "input": given})
    except rfc8785.CanonicalizationError:
        raise InvalidInput.of("input", "numbers must be finite, and whole numbers within 2**53") from None
    return hashlib.sha256(text).digest()
