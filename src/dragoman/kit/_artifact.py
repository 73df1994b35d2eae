"""What a task makes: data, text or a file, with a name."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from dragoman.kit._content import Content, DataPart, FilePart, Part, TextPart


class Artifact(BaseModel):
    """A named product. It never changes; it is final when its task is completed, and a draft before."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=200)
    content: Content
    description: str | None = None

    @classmethod
    def from_json(
        cls, name: str, value: object, *, mime: str | None = None, description: str | None = None
    ) -> "Artifact":
        """Structured data: a model, a dataclass or plain JSON.

        Raises:
            TypeError: the value cannot be written as JSON.
        """
        part = DataPart(data=value, mime=mime)  # pyright: ignore[reportArgumentType] the part writes it down
        return cls(name=name, content=Content(parts=(part,)), description=description)

    @classmethod
    def from_text(cls, name: str, text: str, *, mime: str | None = None, description: str | None = None) -> "Artifact":
        """Words."""
        return cls(name=name, content=Content(parts=(TextPart(text=text, mime=mime),)), description=description)

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
        return self.content.size_bytes

    @classmethod
    def joined(cls, chunks: Sequence["Artifact"]) -> "Artifact":
        """The chunks of one artifact as a whole, in linear time; text that follows text of its kind is one text."""
        parts: list[Part] = []
        for labels, run in groupby((part for chunk in chunks for part in chunk.content.parts), key=_labels):
            if labels is None:
                parts.extend(run)
            else:
                first, *more = (part for part in run if isinstance(part, TextPart))
                text = "".join((first.text, *(part.text for part in more)))
                parts.append(first.model_copy(update={"text": text}))
        return chunks[0].model_copy(update={"content": Content(parts=tuple(parts))})


def _labels(part: Part) -> tuple[object, ...] | None:
    """What text has beside its words; None for everything else."""
    return (part.name, part.mime, part.metadata) if isinstance(part, TextPart) else None
