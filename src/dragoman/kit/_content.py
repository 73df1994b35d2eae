"""What is said: ordered parts of text, data, files, tool calls and their answers."""

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, PlainSerializer, model_validator

from dragoman.kit._validation import nothing_but_json


def _from_base64(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise ValueError("must be base64") from None


def _to_base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


Bytes = Annotated[bytes, BeforeValidator(_from_base64), PlainSerializer(_to_base64, when_used="json")]
Json = Annotated[JsonValue, BeforeValidator(nothing_but_json)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Labelled(_Part):
    """`name` is that of a file; `metadata` is for those who know what it means."""

    name: str | None = None
    metadata: dict[str, JsonValue] | None = None


class TextPart(_Labelled):
    """Words."""

    kind: Literal["text"] = "text"
    text: str
    mime: str | None = None


class DataPart(_Labelled):
    """Any JSON value; a model or a dataclass is written down as JSON when the part is made."""

    kind: Literal["data"] = "data"
    data: Json
    mime: str | None = None


class FilePart(_Labelled):
    """A file, by its bytes or by its address, never both."""

    kind: Literal["file"] = "file"
    mime: str = "application/octet-stream"
    data: Bytes | None = Field(default=None, repr=False)
    uri: str | None = None

    @model_validator(mode="after")
    def _one_source(self) -> "FilePart":
        if (self.data is None) == (self.uri is None):
            raise ValueError("a file has either data or a uri")
        return self


class ToolCallPart(_Part):
    """A model asks for a tool. `malformed` holds what it wrote where that was no JSON object."""

    kind: Literal["tool_call"] = "tool_call"
    id: str
    name: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    malformed: str | None = None


class ToolResponsePart(_Part):
    """What the tool of one call gave."""

    kind: Literal["tool_response"] = "tool_response"
    call_id: str
    name: str
    output: Json = None
    is_error: bool = False


Part: TypeAlias = TextPart | DataPart | FilePart | ToolCallPart | ToolResponsePart
AnyPart = Annotated[Part, Field(discriminator="kind")]
PartLike: TypeAlias = str | Part | Mapping[str, Any]


class Content(BaseModel):
    """Parts in their order. It never changes, and is JSON both ways (`model_dump(mode="json")`, `model_validate`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    parts: tuple[AnyPart, ...] = ()

    @classmethod
    def of(cls, said: "ContentLike") -> "Content":
        """Text becomes a text part, a mapping a data part; a part, several of these, or a Content stay what they are.

        Raises:
            TypeError: it is none of these.
        """
        if isinstance(said, Content):
            return said
        if isinstance(said, str | Mapping | TextPart | DataPart | FilePart | ToolCallPart | ToolResponsePart):
            return cls(parts=(_part(cast("PartLike", said)),))
        if isinstance(said, bytes) or not isinstance(cast("object", said), Iterable):
            raise TypeError(f"content is text, a mapping, parts or a Content, not {type(said).__name__}")
        return cls(parts=tuple(_part(one) for one in said))

    @property
    def text(self) -> str:
        """The text parts, a line each; empty where there is none."""
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def data(self) -> tuple[JsonValue, ...]:
        """The values of the data parts."""
        return tuple(part.data for part in self.parts if isinstance(part, DataPart))

    @property
    def files(self) -> tuple[FilePart, ...]:
        """The file parts."""
        return tuple(part for part in self.parts if isinstance(part, FilePart))

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls that a model asks for."""
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart))

    @property
    def tool_responses(self) -> tuple[ToolResponsePart, ...]:
        """What tools gave."""
        return tuple(part for part in self.parts if isinstance(part, ToolResponsePart))

    @property
    def size_bytes(self) -> int:
        """How much it holds: text as UTF-8, data as compact JSON, files by their bytes; a uri counts for its length."""
        return sum(map(_size, self.parts))

    def __add__(self, more: "Content") -> "Content":
        return Content(parts=(*self.parts, *more.parts))


ContentLike: TypeAlias = Content | PartLike | Iterable[PartLike]


def _size(part: Part) -> int:
    match part:
        case TextPart():
            return len(part.text.encode())
        case DataPart():
            return len(json.dumps(part.data, separators=(",", ":"), ensure_ascii=False).encode())
        case FilePart():
            return len(part.data) if part.data is not None else len((part.uri or "").encode())
        case _:
            return 0


def _part(said: PartLike) -> Part:
    match said:
        case str():
            return TextPart(text=said)
        case TextPart() | DataPart() | FilePart() | ToolCallPart() | ToolResponsePart():
            return said
        case Mapping():
            return DataPart(data=cast("JsonValue", said))
        case _:  # pyright: ignore[reportUnnecessaryComparison] what the types forbid, callers still do
            raise TypeError(f"a part is text, a mapping or one of the part classes, not {type(said).__name__}")
