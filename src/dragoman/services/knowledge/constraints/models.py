"""The values of a check: what is demanded, what is looked at, what was found."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, cast

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

_LONGEST_PATTERN = 1_000


class Operator(StrEnum):
    """What is demanded. `must_use` is of every file it applies to, `must_exist` of one among them."""

    MUST_USE = "must_use"
    MUST_NOT_USE = "must_not_use"
    MUST_MATCH = "must_match"
    MUST_NOT_MATCH = "must_not_match"
    MUST_EXIST = "must_exist"
    MUST_NOT_EXIST = "must_not_exist"

    @property
    def forbids(self) -> bool:
        """Whether each finding is a violation, and not each lack of one."""
        return self.value.startswith("must_not_")

    @property
    def matches(self) -> bool:
        """Whether the pattern is a regular expression on whatever the target is."""
        return self.value.endswith("_match")


class Target(StrEnum):
    """Of what it is demanded."""

    FILE = "file"
    CODE = "code"
    DEPENDENCY = "dependency"
    IMPORT = "import"
    CONFIG = "config"


class Severity(StrEnum):
    """How much a violation matters; a check passes without `block`."""

    INFO = "info"
    WARN = "warn"
    BLOCK = "block"


RANK = {Severity.INFO: 0, Severity.WARN: 1, Severity.BLOCK: 2}
Glob = Annotated[str, Field(min_length=1, max_length=300)]


def _listed(value: object) -> object:
    """A single glob need not stand in a list."""
    if isinstance(value, str):
        return (value,)
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value


Globs = Annotated[tuple[Glob, ...], BeforeValidator(_listed)]


class Constraint(BaseModel):
    """One demand. What the pattern is depends on operator and target; docs/knowledge.md has the table."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    operator: Operator = Field(description="What is demanded.")
    target: Target = Field(description="Of what.")
    pattern: str = Field(
        min_length=1,
        max_length=_LONGEST_PATTERN,
        description="A glob for file; a regular expression for code and for match; else a name, * being any.",
    )
    path: str | None = Field(
        None, min_length=1, max_length=300, description="Config: where the value is, such as server.tls[0].cert."
    )
    version: str | None = Field(
        None, min_length=1, max_length=200, description="Dependency: the versions that are meant, such as <4.17.21."
    )
    applies_to: Globs = Field(
        (),
        max_length=50,
        validation_alias=AliasChoices("applies_to", "appliesTo"),
        description="Only files that one of these globs matches; !glob leaves out again.",
    )
    severity: Severity | None = Field(None, description="How much it matters; that of the item when unset.")
    message: str | None = Field(None, max_length=500, description="What to tell whoever breaks it.")

    @model_validator(mode="after")
    def _fits(self) -> "Constraint":
        if self.path is not None and self.target is not Target.CONFIG:
            raise ValueError("path is for the target config")
        if self.version is not None and self.target is not Target.DEPENDENCY:
            raise ValueError("version is for the target dependency")
        if self.target is Target.CONFIG and self.operator.matches and self.path is None:
            raise ValueError("path is needed: the pattern is held against the value there")
        return self

    @property
    def wording(self) -> str:
        """The demand in a line."""
        where = f" at {self.path}" if self.path else ""
        which = f" {self.version}" if self.version else ""
        return f"{self.operator.value} {self.target.value} {self.pattern}{which}{where}"


@dataclass(frozen=True, slots=True)
class Rule:
    """A constraint as an item demands it; `severity` is the item's, for a constraint that has none."""

    item_id: str
    item_title: str
    constraint: Constraint
    severity: Severity = Severity.WARN

    @property
    def effective_severity(self) -> Severity:
        """The constraint's own, else the item's."""
        return self.constraint.severity or self.severity


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as the project has it; the path is relative, with forward slashes."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Dependency:
    """What the project depends on; `ecosystem` is `pypi` or `npm` where that is known."""

    name: str
    version: str | None = None
    ecosystem: str | None = None
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """What is looked at; dependencies are also read from the manifests among the files.

    `imports` are modules that are imported somewhere unsaid, `config` is a document without a file.
    """

    files: Sequence[SourceFile] = ()
    dependencies: Sequence[Dependency] = ()
    imports: Sequence[str] = ()
    config: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was found."""

    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Violation:
    """A demand that is not met, and where."""

    rule: Rule
    message: str
    place: Place = Place()


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found.

    `violations` hold for what was looked at, whatever else there is. `unmet` are demands that something exist, and
    that nothing of this subject meets: they are violations only when the subject is the whole. `applied` are the
    places in `rules` of those that had something to be held against.
    """

    violations: list[Violation]
    unmet: list[Violation]
    applied: frozenset[int]
