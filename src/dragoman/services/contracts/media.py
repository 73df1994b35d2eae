"""Is it what it says it is? A look at the content, without reading all of it."""

import io
import re
import zipfile
from collections.abc import Callable
from typing import Final

from dragoman.services.contracts.errors import DocumentInvalid
from dragoman.services.contracts.models import MediaType

_TAIL: Final = 2_048
_END: Final = re.compile(rb"startxref\s+(\d{1,12})\s+%%EOF\s*$")
_CROSS_REFERENCES: Final = re.compile(rb"\s*(xref\b|\d+\s+\d+\s+obj\b)")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_WORD_PARTS: Final = frozenset({"[Content_Types].xml", "word/document.xml"})
_MOST_PARTS: Final = 10_000


def check_content(content: bytes, media_type: MediaType) -> None:
    """Refuse what is not of its type.

    Raises:
        DocumentInvalid: it is not; the reason says what gave it away.
    """
    reason = "it is empty" if not content else _CHECKS[media_type](content)
    if reason is not None:
        raise DocumentInvalid(media_type.value, reason)


def _pdf(content: bytes) -> str | None:
    if not content.startswith(b"%PDF-"):
        return "it does not begin with %PDF-"
    end = _END.search(content, max(0, len(content) - _TAIL))
    if end is None:
        return "it does not end with startxref and %%EOF; it may have been cut off"
    if not _CROSS_REFERENCES.match(content, int(end[1])):
        return "there are no cross-references where it says they are"
    return None


def _text(content: bytes) -> str | None:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"it is not UTF-8 from byte {error.start} on"
    control = _CONTROLS.search(text)
    return f"it has the control character U+{ord(control[0]):04X}" if control else None


def _docx(content: bytes) -> str | None:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        return "it is no ZIP archive"
    if len(parts) > _MOST_PARTS:
        return f"it has more than {_MOST_PARTS} parts"
    missing = _WORD_PARTS.difference(parts)
    return f"it lacks {', '.join(sorted(missing))}" if missing else None


_CHECKS: Final[dict[MediaType, Callable[[bytes], str | None]]] = {
    MediaType.PDF: _pdf,
    MediaType.MARKDOWN: _text,
    MediaType.TYPST: _text,
    MediaType.PLAIN: _text,
    MediaType.DOCX: _docx,
}
