"""MIME types, with a hint for the ones that were mistyped."""

import difflib
import re
from collections.abc import Iterable

_TYPE = re.compile(r"(application|audio|font|image|message|model|multipart|text|video|\*)/([a-z0-9!#$&^_.+-]+|\*)")
KNOWN = (
    "application/json",
    "application/jsonl",
    "application/ndjson",
    "application/octet-stream",
    "application/pdf",
    "application/xml",
    "application/yaml",
    "application/zip",
    "audio/mpeg",
    "audio/wav",
    "image/gif",
    "image/jpeg",
    "image/png",
    "image/svg+xml",
    "image/webp",
    "text/css",
    "text/csv",
    "text/html",
    "text/markdown",
    "text/plain",
    "text/xml",
    "video/mp4",
)
_SHORT = {"text": "text/plain", "json": "application/json", "pdf": "application/pdf", "png": "image/png"}


def checked_types(types: Iterable[str], *, where: str) -> tuple[str, ...]:
    """The types as they are.

    Raises:
        ValueError: one is not a MIME type, or is a near miss of a common one.
    """
    kept = tuple(types)
    for one in kept:
        near = _SHORT.get(one) or next(iter(difflib.get_close_matches(one, KNOWN, n=1, cutoff=0.88)), None)
        if one in KNOWN or (_TYPE.fullmatch(one) and (near is None or _deliberate(one))):
            continue
        hint = f" (did you mean {near!r}?)" if near else ""
        raise ValueError(f"{where}: {one!r} is not a known MIME type{hint}")
    return kept


def _deliberate(one: str) -> bool:
    subtype = one.partition("/")[2]
    return subtype.startswith(("x-", "vnd.")) or "+" in subtype
