"""Bytes in JSON: base64 on the way in, and their hash where the input stands in a digest."""

import base64
import binascii
import hashlib
from typing import Final

from pydantic import BeforeValidator, PlainSerializer


def _decoded(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("must be base64, with padding and without line breaks") from None


def _named(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


DECODED: Final = BeforeValidator(_decoded)
# Canonical JSON of megabytes takes half a second.
NAMED_BY_HASH: Final = PlainSerializer(_named, when_used="json")
