"""What a task makes: data, text or a file, with a name."""

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from dragoman.kit._content import Content, DataPart, FilePart, TextPart


class Artifact(BaseModel):
    """A named product. It never changes; it is final when its task is completed, and a draft before."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=200)
    content: Content
    description: str | None = None

    @classmethod
    def from_json(cls, name: str, value: object, *, description: str | None = None) -> "Artifact":
        """Structured data: a model, a dataclass or plain JSON.

        Raises:
            TypeError: the value cannot be written as JSON.
        """
        return cls(name=name, content=Content(parts=(DataPart(data=value),)), description=description)  # pyright: ignore[reportArgumentType] the part writes it down

    @classmethod
    def from_text(cls, name: str, text: str, *, description: str | None = None) -> "Artifact":
        """Words."""
        return cls(name=name, content=Content(parts=(TextPart(text=text),)), description=description)

    @classmethod
    def from_file(cls, name: str, mime: str, source: bytes | Path, *, description: str | None = None) -> "Artifact":
        """A file by its bytes; a path is read at once.

        Raises:
            OSError: the path cannot be read.
        """
        data = source.read_bytes() if isinstance(source, Path) else source
        part = FilePart(name=name, mime=mime, data=data)
        return cls(name=name, content=Content(parts=(part,)), description=description)

    @property
    def size_bytes(self) -> int:
        """How much it holds: text as UTF-8, data as compact JSON, files by their bytes; a uri counts for its length."""
        return sum(map(_size, self.content.parts))

    def extended(self, more: "Artifact") -> "Artifact":
        """This artifact with the parts of a further chunk at its end."""
        return self.model_copy(update={"content": self.content + more.content})


def _size(part: object) -> int:
    match part:
        case TextPart():
            return len(part.text.encode())
        case DataPart():
            return len(json.dumps(part.data, separators=(",", ":"), ensure_ascii=False).encode())
        case FilePart():
            return len(part.data) if part.data is not None else len((part.uri or "").encode())
        case _:
            return 0
