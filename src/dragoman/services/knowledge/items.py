"""An item of knowledge: what it is, in which states it can be, where in the repository it stands."""

import hashlib
import re
import unicodedata
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

import orjson

from dragoman.services.knowledge.constraints import Constraint, Severity

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
# They stand where an id would in an address.
RESERVED = frozenset({"query", "check", "propose", "sync", "status", "constraints"})
_MOST_SLUG = 60
# What one document may have.
MOST_BYTES = 256 * 1024
MAIN = "main"
# A proposal is on a branch of its own below the first, and one that was rejected below the second.
PROPOSALS, REJECTED = "proposals/", "rejected/"
# The problem of a document among the policies that cannot be read, and may be meant to be in force.
UNREADABLE_POLICY = "unreadable_policy"
# Git allows the first nowhere in a signature, and takes the others off its ends.
_UNFIT, _OUTER = re.compile(r"[<>\n\r\x00]"), " .,:;\"'\\"


class ItemType(StrEnum):
    """A decision, a rule that is checked, a way of doing things, a description of what there is."""

    ADR = "adr"
    POLICY = "policy"
    PATTERN = "pattern"
    SPEC = "spec"


class Layer(StrEnum):
    """For whom it holds."""

    COMPANY = "company"
    ORG = "org"
    TEAM = "team"
    PROJECT = "project"


class Status(StrEnum):
    """Where it is in its life."""

    DRAFT = "draft"
    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    DEPRECATED = "deprecated"
    SUPERSEDED = "superseded"

    def may_become(self, other: "Status") -> bool:
        """Whether the life cycle has this step; staying as it is always may be."""
        return other is self or other in _STEPS[self]


_STEPS: dict[Status, frozenset[Status]] = {
    Status.DRAFT: frozenset({Status.PROPOSED, Status.REJECTED}),
    Status.PROPOSED: frozenset({Status.ACCEPTED, Status.REJECTED}),
    Status.ACCEPTED: frozenset({Status.DEPRECATED, Status.SUPERSEDED}),
    Status.REJECTED: frozenset(),
    Status.DEPRECATED: frozenset({Status.SUPERSEDED}),
    Status.SUPERSEDED: frozenset(),
}
_TYPE_FOLDERS = {
    ItemType.ADR: "adrs",
    ItemType.POLICY: "policies",
    ItemType.PATTERN: "patterns",
    ItemType.SPEC: "specs",
}
_LAYER_FOLDERS = {Layer.ORG: "orgs", Layer.TEAM: "teams", Layer.PROJECT: "projects"}
_FOLDER_TYPES = {folder: kind for kind, folder in _TYPE_FOLDERS.items()}
_FOLDER_LAYERS = {folder: layer for layer, folder in _LAYER_FOLDERS.items()}


@dataclass(frozen=True, slots=True)
class Location:
    """What a path in the repository says of the item there."""

    type: ItemType
    layer: Layer
    layer_id: str | None

    @property
    def folder(self) -> str:
        """Where items of this kind stand."""
        top = "company" if self.layer is Layer.COMPANY else f"{_LAYER_FOLDERS[self.layer]}/{self.layer_id}"
        return f"{top}/{_TYPE_FOLDERS[self.type]}"


def locate(path: str) -> Location | None:
    """What stands at a path; None where no item is expected."""
    if not path.endswith(".md"):
        return None
    match path.split("/"):
        case ["company", folder, *rest] if rest and folder in _FOLDER_TYPES:
            return Location(_FOLDER_TYPES[folder], Layer.COMPANY, None)
        case [top, layer_id, folder, *rest] if rest and top in _FOLDER_LAYERS and folder in _FOLDER_TYPES:
            return Location(_FOLDER_TYPES[folder], _FOLDER_LAYERS[top], layer_id)
        case _:
            return None


def is_policy(path: str) -> bool:
    """Check whether policies are expected at a path."""
    location = locate(path)
    return location is not None and location.type is ItemType.POLICY


@dataclass(frozen=True, slots=True)
class Item:
    """One item as its document says it. `path` is where the document stands."""

    id: str
    location: Location
    title: str
    status: Status
    content: str
    path: str
    summary: str = ""
    severity: Severity = Severity.WARN
    constraints: tuple[Constraint, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    supersedes: tuple[str, ...] = ()
    superseded_by: str | None = None
    links: tuple[str, ...] = ()
    version: int = 1
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def content_hash(self) -> str:
        """Of what it says and demands: a status that moves on its way leaves it as it is."""
        demands = [constraint.model_dump(mode="json", exclude_none=True) for constraint in self.constraints]
        return hashlib.sha256(orjson.dumps([self.title, self.content, demands])).hexdigest()

    @property
    def immutable(self) -> bool:
        """Whether its content can no longer be changed: a decision that was taken."""
        return self.location.type is ItemType.ADR and self.status not in (Status.DRAFT, Status.PROPOSED)

    def at(self, status: Status, **changes: Any) -> "Item":
        """The same in another status."""
        return replace(self, status=status, **changes)


@dataclass(frozen=True, slots=True)
class Author:
    """Who made a change, as git has it."""

    name: str
    email: str


def name_in_git(text: str) -> str:
    """A name or an address as a signature has it."""
    return _UNFIT.sub(" ", text).strip(_OUTER) or "unknown"


@dataclass(frozen=True, slots=True)
class Signed:
    """Who changes something, when, and why."""

    author: Author
    at: datetime
    reason: str | None = None

    def message(self, verb: str, item: Item) -> str:
        """What the commit says."""
        return f"{verb} {item.id}: {item.title}\n\n{self.reason or ''}".strip()


@dataclass(frozen=True, slots=True)
class RepositoryState:
    """Where the branches of a repository are: the main one, and those of proposals."""

    head: str | None
    branches: dict[str, str]


def path_of(location: Location, item_id: str) -> str:
    """Where a new item goes."""
    return f"{location.folder}/{item_id}.md"


def slug_of(item_type: ItemType, title: str) -> str:
    """An id from a title: `adr-use-postgresql`."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:_MOST_SLUG].strip("-")
    return f"{item_type.value}-{words}" if words else item_type.value


def summary_of(content: str) -> str:
    """The first paragraph that is no heading, cut to a few lines."""
    for block in re.split(r"\n\s*\n", content[:10_000]):
        text = " ".join(line.strip() for line in block.splitlines() if not line.lstrip().startswith("#"))
        if text.strip():
            return text.strip()[:300]
    return ""
