"""YAML between two fences at the head of a document, with the line of every field."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# YAML has no types.

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from enum import Enum
from typing import Any, TypeVar, cast

import yaml

from dragoman.services.knowledge.errors import ItemRefused

_FENCE = "---"
_MOST_BYTES = 64 * 1024
_DEEPEST = 20
_LONGEST = 1_000
E = TypeVar("E", bound=Enum)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The fields of a document, read one by one; each complaint names the field, the file and the line."""

    file: str
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    lines: dict[str, int] = field(default_factory=dict[str, int])

    def refused(self, name: str, message: str) -> ItemRefused:
        """A complaint about a field."""
        return ItemRefused(name, message, file=self.file, line=self.lines.get(name, 1))

    def text(self, name: str, default: str = "", *, longest: int = _LONGEST) -> str:
        """A field that is text; a number will do."""
        value = self.values.get(name, default)
        if value is None:
            return default
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise self.refused(name, "must be text")
        if len(str(value)) > longest:
            raise self.refused(name, f"must have at most {longest} characters")
        return str(value).strip()

    def texts(self, name: str, *, most: int = 100) -> tuple[str, ...]:
        """A field that is a list of texts, or one text."""
        value = self.values.get(name)
        if value is None:
            return ()
        items = cast("list[Any]", value) if isinstance(value, list) else [value]
        if len(items) > most or not all(isinstance(item, str | int | float) for item in items):
            raise self.refused(name, f"must be a list of at most {most} texts")
        if any(len(str(item)) > 200 for item in items):
            raise self.refused(name, "must hold texts of at most 200 characters")
        return tuple(str(item).strip() for item in items)

    def choice(self, name: str, kind: type[E], default: E) -> E:
        """A field that is one of a few words."""
        if self.values.get(name) is None:
            return default
        try:
            return kind(self.text(name).lower())
        except ValueError:
            known = ", ".join(str(member.value) for member in kind)
            raise self.refused(name, f"must be one of {known}") from None

    def table(self, name: str) -> dict[str, Any]:
        """A field that holds further fields."""
        value = self.values.get(name) or {}
        if not isinstance(value, dict):
            raise self.refused(name, "must be a mapping")
        return {str(key): plain(inner) for key, inner in cast("dict[Any, Any]", value).items()}

    def number(self, name: str, default: int) -> int:
        """A field that counts."""
        value = self.values.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 2**31:
            raise self.refused(name, "must be a whole number from 1 on")
        return value

    def moment(self, name: str) -> datetime | None:
        """A field that is a date or a time; without a zone it is meant in UTC."""
        value = self.values.get(name)
        if value is None:
            return None
        try:
            found = datetime.fromisoformat(value) if isinstance(value, str) else value
        except ValueError:
            raise self.refused(name, "must be a date such as 2026-01-15") from None
        if isinstance(found, datetime):
            return found if found.tzinfo else found.replace(tzinfo=UTC)
        if isinstance(found, date):
            return datetime.combine(found, time(), UTC)
        raise self.refused(name, "must be a date such as 2026-01-15")


def split(text: str, file: str) -> tuple[FrontMatter, str]:
    """The fields and the text below them; a document without a fence has no fields.

    Raises:
        ItemRefused: what is between the fences is not YAML, or not a mapping.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _FENCE:
        return FrontMatter(file), "\n".join(lines)
    end = next((place for place, line in enumerate(lines) if place and line.rstrip() == _FENCE), None)
    if end is None:
        raise ItemRefused("front_matter", f"has no closing {_FENCE}", file=file, line=1)
    head = "\n".join(lines[1:end])
    if len(head) > _MOST_BYTES:
        raise ItemRefused("front_matter", f"must not exceed {_MOST_BYTES} bytes", file=file, line=1)
    return _read(head, file), "\n".join(lines[end + 1 :]).strip("\n")


def _read(head: str, file: str) -> FrontMatter:
    try:
        _check_shape(head, file)
        node = yaml.compose(head, Loader=yaml.CSafeLoader)
        values: object = yaml.load(head, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        line = mark.line + 2 if mark is not None else 2
        raise ItemRefused("front_matter", f"is not YAML: {reason}", file=file, line=line) from None
    except ValueError as error:  # a date such as 2026-02-31
        raise ItemRefused("front_matter", f"is not YAML: {error}", file=file, line=2) from None
    if values is None:
        return FrontMatter(file)
    if not isinstance(values, dict) or not isinstance(node, yaml.MappingNode):
        raise ItemRefused("front_matter", "must be a mapping of fields", file=file, line=2)
    fields = cast("dict[Any, Any]", values)
    return FrontMatter(file, {str(name): value for name, value in fields.items()}, _lines(node))


def _check_shape(head: str, file: str) -> None:
    """Refuse what unfolds: an alias of aliases is a few lines that become gigabytes."""
    depth = 0
    for event in yaml.parse(head, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            line = event.start_mark.line + 2
            raise ItemRefused("front_matter", "must not use aliases (*name)", file=file, line=line)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            line = event.start_mark.line + 2
            raise ItemRefused("front_matter", f"must not be nested more than {_DEEPEST} deep", file=file, line=line)


def _lines(node: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for key, value in node.value:
        name = str(key.value)
        found[name] = key.start_mark.line + 2
        if isinstance(value, yaml.SequenceNode):
            for place, item in enumerate(value.value):
                found[f"{name}.{place}"] = item.start_mark.line + 2
    return found


def plain(value: Any) -> Any:
    """What YAML gives, as JSON can say it."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple | set):
        return [plain(inner) for inner in cast("list[Any]", value)]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return str(value)
