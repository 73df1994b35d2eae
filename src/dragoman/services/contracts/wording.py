"""The words of a version, where it has any that can be read."""

import io
import zipfile
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree as ET

from dragoman.services.contracts.documents import Held
from dragoman.services.contracts.models import MediaType
from dragoman.services.contracts.prose import Blocks, read_markdown, read_plain

_MOST_CHARACTERS: Final = 1_000_000
_MOST_XML_BYTES: Final = 20_000_000
_WORD: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why a version has no words for us."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Wording:
    """The words; `raw` is the text as its author wrote it, where that is what the version consists of."""

    blocks: Blocks
    raw: str | None = None


def read_wording(held: Held) -> Wording | Unreadable:
    """The words of a version, or why there are none."""
    number, media_type = held.version.version, held.version.media_type
    if held.source is not None:
        return Wording(read_markdown(held.source))
    if media_type is MediaType.PDF:
        return Unreadable(
            "NO_TEXT", f"version {number} is a PDF from elsewhere, perhaps a scan; only its image can be compared"
        )
    text = _read_docx(held.content) if media_type is MediaType.DOCX else held.content.decode()
    if text is None:
        return Unreadable("UNREADABLE", f"the words of version {number} cannot be taken out of it")
    if len(text) > _MOST_CHARACTERS:
        return Unreadable("TOO_LONG", f"version {number} has more than {_MOST_CHARACTERS} characters")
    if media_type is MediaType.DOCX:
        return Wording(read_plain(text))
    return Wording(read_blocks(text, media_type), raw=text)


def read_blocks(text: str, media_type: MediaType) -> Blocks:
    """Text as blocks: with the marks of Markdown, or without any."""
    return read_plain(text) if media_type in (MediaType.PLAIN, MediaType.TYPST) else read_markdown(text)


def _read_docx(content: bytes) -> str | None:
    """The paragraphs of a document of a word processor, one on each line."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive, archive.open("word/document.xml") as part:
            xml = part.read(_MOST_XML_BYTES + 1)
    except (zipfile.BadZipFile, KeyError, ValueError, NotImplementedError, RuntimeError, OSError, EOFError):
        return None
    # Without a document type there are no entities of its own, and nothing that grows while it is read.
    if len(xml) > _MOST_XML_BYTES or b"<!DOCTYPE" in xml:
        return None
    try:
        root = ET.fromstring(xml)  # noqa: S314 - see above
    except ET.ParseError:
        return None
    return "\n".join(_paragraph(one) for one in root.iter(f"{_WORD}p"))


def _paragraph(paragraph: ET.Element) -> str:
    parts: list[str] = []
    for node in paragraph.iter():
        if node.tag == f"{_WORD}t":
            parts.append(node.text or "")
        elif node.tag in (f"{_WORD}tab", f"{_WORD}br"):
            parts.append(" ")
    return "".join(parts)
