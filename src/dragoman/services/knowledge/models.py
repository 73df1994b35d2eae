"""What is asked of knowledge, and what it answers."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, Field, SecretStr, StringConstraints, field_validator

from dragoman.operations import Input, Output
from dragoman.services.knowledge.constraints import Constraint, Severity
from dragoman.services.knowledge.items import ID_PATTERN, RESERVED, ItemType, Layer, Status
from dragoman.text import Name, Text


def _no_verb(item_id: str) -> str:
    if item_id in RESERVED:
        raise ValueError("is the name of an address; choose another id")
    return item_id


def _inside(path: str) -> str:
    """A path within the project, whoever reads it."""
    parts = path.replace("\\", "/").split("/")
    if path.startswith(("/", "\\", "~")) or ".." in parts or (len(path) > 1 and path[1] == ":") or "\x00" in path:
        raise ValueError("must be a relative path within the project")
    return path.removeprefix("./")


ItemId = Annotated[str, StringConstraints(pattern=ID_PATTERN), AfterValidator(_no_verb)]
LayerId = Annotated[str, StringConstraints(pattern=ID_PATTERN)]
InnerPath = Annotated[str, StringConstraints(min_length=1, max_length=500), AfterValidator(_inside)]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Message = Annotated[Text, StringConstraints(min_length=1, max_length=2_000)]


class ItemSummary(Output):
    """An item as a list shows it; `score` is how well it fits the question, from 0 to 1."""

    id: str
    type: ItemType
    layer: Layer
    layer_id: str | None
    title: str
    summary: str
    status: Status
    tags: list[str]
    score: float
    updated_at: datetime


class QueryResult(Output):
    """What was found, best first."""

    items: list[ItemSummary]
    total_count: int = Field(description="How many fit, of which these are the first.")
    by_meaning: bool = Field(description="Whether meaning was looked at too, and not words alone.")


class ItemChange(Output):
    """One commit of an item's history."""

    commit: str
    author: str
    email: str
    at: datetime
    message: str


class KnowledgeItem(Output):
    """An item, whole."""

    id: str
    type: ItemType
    layer: Layer
    layer_id: str | None
    title: str
    summary: str
    status: Status
    severity: Severity
    tags: list[str]
    content: str
    content_hash: str
    constraints: list[Constraint]
    metadata: dict[str, Any]
    supersedes: list[str]
    superseded_by: str | None
    links: list[str]
    revision: int = Field(description="How often its content was accepted.")
    path: str
    branch: str
    commit: str
    created_at: datetime
    updated_at: datetime
    proposal: str | None = Field(None, description="The branch on which a change of it is proposed.")
    history: list[ItemChange] | None = None


class ChangeHistory(Output):
    """The commits that changed an item, newest first."""

    id: str
    path: str
    changes: list[ItemChange]


class Difference(Output):
    """How an item changed, as a unified diff."""

    id: str
    path: str
    old: str | None
    new: str
    diff: str


class CodeLocation(Output):
    """Where in the project; a thing that is missing everywhere has no file."""

    file: str | None = None
    line: int | None = None


class BrokenConstraint(Output):
    """A demand that is not met, and the item that makes it."""

    item_id: str
    item_title: str
    constraint: str
    severity: Severity
    message: str
    location: CodeLocation


class ConstraintInForce(Output):
    """A demand of an accepted item."""

    item_id: str
    item_title: str
    item_type: ItemType
    layer: Layer
    severity: Severity
    constraint: str
    message: str | None
    applies_to: list[str]


class ConstraintsInForce(Output):
    """The constraints, blocking ones first; `total_count` is how many there are, of which these are the first."""

    constraints: list[ConstraintInForce] = Field(
        examples=[
            [
                {
                    "item_id": "adr-use-postgresql",
                    "item_title": "Use PostgreSQL",
                    "item_type": "adr",
                    "layer": "company",
                    "severity": "block",
                    "constraint": "must_not_use import sqlite3",
                    "message": "Use the pool of infra/db.",
                    "applies_to": ["src/**"],
                }
            ]
        ]
    )
    total_count: int


class CheckSummary(Output):
    """Violations by severity, and what was held against what."""

    info: int
    warn: int
    block: int
    files: int
    dependencies: int
    constraints: int
    unused: int = Field(description="Constraints that had nothing to be held against.")


class CheckResult(Output):
    """Whether a change may pass; it does when nothing of severity block is violated."""

    passed: bool
    violations: list[BrokenConstraint]
    unmet: list[BrokenConstraint] = Field(
        description="Of a partial check: what must be somewhere, and is not in this part."
    )
    summary: CheckSummary


class Written(Output):
    """An item that was changed, and by which commit."""

    id: str
    status: Status
    branch: str
    path: str
    commit: str
    success: bool = True


class KnowledgeProblem(Output):
    """Something in the repository that a person should look at; nothing else is held up by it."""

    kind: str
    file: str
    line: int
    item_id: str | None
    message: str


class RepositoryStatus(Output):
    """How the repository stands."""

    head: str | None
    indexed: str | None
    remote: str | None
    remote_branch: str | None
    synced_at: datetime | None
    items: dict[str, int] = Field(description="How many items there are in each status.")
    problems: list[KnowledgeProblem]


class SyncResult(Output):
    """What a sync brought. Without `merged` the main branch stays where it was, and `conflicts` say why."""

    remote: str
    branch: str
    merged: bool
    head: str | None
    added: int
    updated: int
    deleted: int
    conflicts: list[KnowledgeProblem]


class QueryKnowledge(Input):
    """A question, and what to look at; without a question, the latest."""

    query: Text | None = Field(None, max_length=2_000, description="What to look for, in words.")
    type: ItemType | None = Field(None, description="Only items of this type.")
    layer: Layer | None = Field(None, description="Only items of this layer.")
    layer_id: LayerId | None = Field(None, description="Only items of this org, team or project.")
    tags: list[Tag] | None = Field(None, max_length=20, description="Only items with all of these tags.")
    status: list[Status] | Status | None = Field(
        None, description="Only items in these statuses; accepted, proposed and draft ones when unset."
    )
    limit: int = Field(10, ge=1, le=100, description="How many at most.")


class ItemRef(Input):
    """One item of the caller's tenant."""

    id: ItemId = Field(description="The item's id.", examples=["adr-use-postgresql"])


class ShowItem(ItemRef):
    """An item to show."""

    include_history: bool = Field(default=False, description="Also the commits that changed it.")


class ItemHistory(ItemRef):
    """An item whose changes to list."""

    limit: int = Field(50, ge=1, le=500, description="How many at most.")


class DiffItem(ItemRef):
    """Two states of an item; its proposal against what is accepted when neither is named, else its last change."""

    old: str | None = Field(None, pattern=r"^[0-9a-f]{4,40}$", description="A commit.")
    new: str | None = Field(None, pattern=r"^[0-9a-f]{4,40}$", description="A commit; the latest when unset.")


class CheckedFile(Input):
    """A file of the project."""

    path: InnerPath
    content: str = Field(max_length=4 * 1024 * 1024)


class CheckedDependency(Input):
    """Something that the project depends on."""

    name: str = Field(min_length=1, max_length=300)
    version: str | None = Field(None, max_length=200)
    ecosystem: Literal["pypi", "npm"] | None = None
    file: InnerPath | None = None
    line: int | None = Field(None, ge=1)


class CheckKnowledge(Input):
    """A change to hold against what is accepted. Manifests among the files give their dependencies themselves."""

    files: list[CheckedFile] = Field(default_factory=list[CheckedFile], max_length=5_000, description="Files.")
    dependencies: list[CheckedDependency] = Field(
        default_factory=list[CheckedDependency], max_length=20_000, description="Dependencies."
    )
    min_severity: Severity = Field(Severity.WARN, description="Report nothing below this.")
    item_ids: list[ItemId] | None = Field(
        None, max_length=500, description="Only these items, whatever their status: also to try a proposal."
    )
    partial: bool = Field(
        default=False, description="These are not all files: what must be somewhere is listed as unmet, not violated."
    )


class ProposeItem(Input):
    """A new item, or a change of one: in fields, or as a whole document with front matter."""

    document: str | None = Field(
        None, max_length=262_144, description="Markdown with YAML front matter; it says all that the fields would."
    )
    id: ItemId | None = Field(None, description="The id; made from the title when unset.")
    type: ItemType | None = Field(None, description="What it is.")
    title: Name | None = Field(None, description="What it is called.")
    content: Text | None = Field(None, max_length=200_000, description="What it says, in Markdown.")
    layer: Layer = Field(Layer.COMPANY, description="For whom it holds.")
    layer_id: LayerId | None = Field(None, description="Which org, team or project.")
    summary: Text | None = Field(None, max_length=1_000, description="In a sentence; the first paragraph when unset.")
    severity: Severity = Field(Severity.WARN, description="How much its constraints matter, unless they say so.")
    constraints: list[Constraint] = Field(
        default_factory=list[Constraint], max_length=100, description="What it demands of code."
    )
    tags: list[Tag] = Field(default_factory=list[Tag], max_length=50, description="Words to find it by.")
    metadata: dict[str, Any] = Field(default_factory=dict[str, Any], description="Authors, reviewers, references.")
    supersedes: list[ItemId] = Field(
        default_factory=list[ItemId], max_length=20, description="Items that end when this one is accepted."
    )
    links: list[ItemId] = Field(default_factory=list[ItemId], max_length=50, description="Related items.")
    status: Literal["draft", "proposed"] = Field("proposed", description="A draft cannot be accepted yet.")
    message: Message | None = Field(None, description="Why; it becomes the message of the commit.")


class Decide(ItemRef):
    """A proposal, or an item, to decide about."""

    reason: Message | None = Field(None, description="Why; it becomes part of the commit.")


class AcceptItem(Decide):
    """A proposal to accept."""

    approval_id: UUID | None = Field(None, description="An approval of exactly what is proposed, where one is needed.")


class EndItem(Decide):
    """An accepted item to end."""

    approval_id: UUID | None = Field(None, description="An approval of ending exactly this item, where one is needed.")


class SupersedeItem(EndItem):
    """An accepted item that another one replaces."""

    by: ItemId = Field(description="The item that takes its place; it must be accepted.")


class ListConstraints(Input):
    """Which constraints in force to list."""

    min_severity: Severity = Field(Severity.INFO, description="List nothing below this.")
    limit: int = Field(200, ge=1, le=1_000, description="How many at most.")


class ShowStatus(Input):
    """Nothing: a tenant has one repository."""


class ConnectionKind(StrEnum):
    """How a remote lets this server in."""

    TOKEN = "token"  # noqa: S105 - the name of a kind
    SSH_KEY = "ssh_key"


class ConnectRemote(Input):
    """Credentials for exactly this remote: a token for https://, a private key and the keys of the host for SSH."""

    remote: str = Field(
        min_length=1,
        max_length=2_000,
        description="https://..., ssh://... or git@host:path, as knowledge.sync gets it.",
    )
    username: str | None = Field(
        None,
        pattern=r"^[!-9;-~]{1,200}$",
        description="Sent with the token; `git` when unset. The user of SSH is part of the remote.",
    )
    token: Annotated[SecretStr, Field(min_length=1, max_length=4_000)] | None = Field(
        None, description="A token or password for https://. Stored encrypted, and never shown again."
    )
    private_key: Annotated[SecretStr, Field(min_length=1, max_length=20_000)] | None = Field(
        None, description="A private key of SSH without a passphrase. Stored encrypted, and never shown again."
    )
    host_keys: list[Annotated[str, Field(min_length=1, max_length=4_000)]] = Field(
        default=[], max_length=10, description="The public keys of the SSH host, as `ssh-keyscan` prints them."
    )

    @field_validator("token")
    @classmethod
    def _plain(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and not (token.get_secret_value().isascii() and token.get_secret_value().isprintable()):
            raise ValueError("must be printable ASCII")
        return token


class RemoteConnection(Output):
    """A remote that has credentials here. `public_key` is to be allowed at the host; secrets are never shown."""

    id: UUID
    remote: str
    kind: ConnectionKind
    username: str | None
    public_key: str | None
    host_key_fingerprints: list[str]
    updated_by: str
    updated_at: datetime | None


class ListConnections(Input):
    """All of them."""


class ConnectionRef(Input):
    """Credentials of a remote, by their id."""

    connection_id: UUID


class SyncKnowledge(Input):
    """A remote repository to merge; the one of the last sync when unset."""

    remote: str | None = Field(
        None, min_length=1, max_length=2_000, description="https://..., ssh://..., git@host:path, or a path if allowed."
    )
    branch: str | None = Field(
        None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$", description="Its branch; main when unset."
    )
    on_conflict: Literal["stop", "ours", "theirs"] = Field(
        "stop", description="When both sides changed a file: change nothing, or take a side in that file."
    )
    approval_id: UUID | None = Field(
        None, description="An approval of exactly this merge, where it ends a policy and one is needed."
    )
