"""Between an item and its Markdown document with YAML front matter."""

import re
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, cast

import yaml
from pydantic import ValidationError

from dragoman.services.knowledge.constraints import Constraint, Severity
from dragoman.services.knowledge.constraints.engine import complain
from dragoman.services.knowledge.errors import ItemRefused
from dragoman.services.knowledge.front_matter import FrontMatter, split
from dragoman.services.knowledge.items import (
    ID_PATTERN,
    MOST_BYTES,
    RESERVED,
    Item,
    ItemType,
    Layer,
    Location,
    Status,
    locate,
    summary_of,
)

_MOST_CONSTRAINTS = 100
_NAMES = {"supersededBy": "superseded_by", "layerId": "layer_id", "createdAt": "created_at", "updatedAt": "updated_at"}
_OWN = frozenset(
    {"id", "type", "layer", "layer_id", "title", "summary", "status", "severity", "constraints", "tags", "metadata",
     "supersedes", "superseded_by", "links", "version", "created_at", "updated_at"}
)  # fmt: skip
_HEADING = re.compile(r"^#\s+(?:\d+\.\s+)?(.+?)\s*#*\s*$", re.MULTILINE)
_STATUS_SECTION = re.compile(r"^(?:##\s+Status\s*\n+\s*|\*{0,2}Status\*{0,2}:\*{0,2}\s*)(\w+)", re.MULTILINE | re.I)


def read_item(text: str, path: str, location: Location | None = None) -> Item:
    """The item of a document; `location` is for one that stands nowhere yet, else its path says where it belongs.

    A document without front matter, as ADR tools write them, has its title and status from its text.

    Raises:
        ItemRefused: the document is no item, with the line that makes it so.
    """
    if len(text.encode(errors="replace")) > MOST_BYTES:
        raise ItemRefused("content", f"must not exceed {MOST_BYTES} bytes", file=path, line=1)
    if "\x00" in text:
        raise ItemRefused("content", "must not contain the control character U+0000", file=path, line=1)
    fields, content = split(text, path)
    fields = FrontMatter(
        path,
        {_NAMES.get(name, name): value for name, value in fields.values.items()},
        {_NAMES.get(name, name): line for name, line in fields.lines.items()},
    )
    location = locate(path) or location or _location(fields)
    others = {name: value for name, value in fields.values.items() if name not in _OWN}
    shown = FrontMatter(path, {"metadata": others}).table("metadata")
    return Item(
        id=_id(fields, path),
        location=location,
        title=_title(fields, content, path),
        status=_status(fields, content),
        content=content,
        path=path,
        summary=fields.text("summary") or summary_of(content),
        severity=fields.choice("severity", Severity, Severity.WARN),
        constraints=_constraints(fields),
        tags=fields.texts("tags"),
        metadata={**shown, **fields.table("metadata")},
        supersedes=fields.texts("supersedes"),
        superseded_by=fields.text("superseded_by") or None,
        links=fields.texts("links"),
        version=fields.number("version", 1),
        created_at=fields.moment("created_at"),
        updated_at=fields.moment("updated_at"),
    )


def may_be_accepted(text: str, path: str) -> bool:
    """Check whether a document that is no item may be meant to be in force: it does not clearly say otherwise."""
    try:
        return _status(*split(text, path)) is Status.ACCEPTED
    except ItemRefused:
        return True


def write_item(item: Item) -> str:
    """The document of an item; reading it gives the same item."""
    location = item.location
    optional: dict[str, Any] = {
        "layer_id": location.layer_id,
        "summary": item.summary if item.summary != summary_of(item.content) else None,
        "tags": list(item.tags),
        "supersedes": list(item.supersedes),
        "superseded_by": item.superseded_by,
        "links": list(item.links),
        "metadata": item.metadata,
        "constraints": [one.model_dump(mode="json", exclude_defaults=True) for one in item.constraints],
        "created_at": _moment(item.created_at),
        "updated_at": _moment(item.updated_at),
    }
    head = {
        "id": item.id,
        "type": location.type.value,
        "title": item.title,
        "status": item.status.value,
        "layer": location.layer.value,
        "severity": item.severity.value,
        "version": item.version,
        **{name: value for name, value in optional.items() if value},
    }
    dumped = yaml.dump(head, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=120)
    return f"---\n{dumped}---\n\n{item.content.strip()}\n"


def layer_complaint(text: str, item: Item) -> int | None:
    """The line on which a document claims another layer or type than the folder that it stands in, or None."""
    fields, _ = split(text, item.path)
    claims = {"type": item.location.type.value, "layer": item.location.layer.value, "layer_id": item.location.layer_id}
    for name, actual in claims.items():
        if fields.values.get(name) is not None and str(fields.values[name]).lower() != str(actual).lower():
            return fields.lines.get(name, 1)
    return None


def _location(fields: FrontMatter) -> Location:
    layer = fields.choice("layer", Layer, Layer.COMPANY)
    layer_id = fields.text("layer_id") or None
    if (layer is Layer.COMPANY) != (layer_id is None):
        raise fields.refused("layer_id", f"is {'not for' if layer is Layer.COMPANY else 'needed by'} the layer {layer}")
    if layer_id is not None and re.match(ID_PATTERN, layer_id) is None:
        raise fields.refused("layer_id", "must be letters, digits, dots, dashes and underscores")
    return Location(fields.choice("type", ItemType, ItemType.ADR), layer, layer_id)


def _id(fields: FrontMatter, path: str) -> str:
    item_id = fields.text("id") or PurePosixPath(path).stem
    if re.match(ID_PATTERN, item_id) is None or item_id in RESERVED:
        raise fields.refused("id", "must be up to 100 letters, digits, dots, dashes and underscores, and no verb")
    return item_id


def _status(fields: FrontMatter, content: str) -> Status:
    word = _STATUS_SECTION.search(content)
    written = Status(word[1].lower()) if word and word[1].lower() in list(Status) else Status.DRAFT
    return fields.choice("status", Status, written)


def _title(fields: FrontMatter, content: str, path: str) -> str:
    if title := fields.text("title", longest=200):
        return " ".join(title.split())
    heading = _HEADING.search(content)
    return heading[1][:200] if heading else PurePosixPath(path).stem.replace("-", " ")


def _constraints(fields: FrontMatter) -> tuple[Constraint, ...]:
    listed: object = fields.values.get("constraints") or []
    given = cast("list[object]", listed) if isinstance(listed, list) else None
    if given is None or len(given) > _MOST_CONSTRAINTS:
        raise fields.refused("constraints", f"must be a list of at most {_MOST_CONSTRAINTS}")
    found: list[Constraint] = []
    for place, entry in enumerate(given):
        line = fields.lines.get(f"constraints.{place}", fields.lines.get("constraints", 1))
        try:
            constraint = Constraint.model_validate(entry)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            name = ".".join(["constraints", str(place), *map(str, first["loc"])])
            message = first["msg"].removeprefix("Value error, ")
            raise ItemRefused(name, message, file=fields.file, line=line) from None
        if (complaint := complain(constraint)) is not None:
            raise ItemRefused(f"constraints.{place}.{complaint[0]}", complaint[1], file=fields.file, line=line)
        found.append(constraint)
    return tuple(found)


def _moment(at: datetime | None) -> str | None:
    return at.astimezone(UTC).isoformat(timespec="seconds") if at else None
