"""What is asked of governance, and what it answers."""

from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import AwareDatetime, BeforeValidator, Field, model_validator

from dragoman.operations import Input, ListInput, Output
from dragoman.services.knowledge.constraints.models import Severity
from dragoman.services.knowledge.items import Layer
from dragoman.services.tasks.actions.envelope import Matter, Resource
from dragoman.text import Name, Subject

_ONE_FILE = 1_000_000
ProjectId = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")]
PolicyId = Annotated[str, Field(min_length=1, max_length=200)]
Revision = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/~^-]*$")]


class LayerIds(Input):
    """Of which organisation, team and project; without an id, the policies of all of them."""

    org_id: str | None = Field(default=None, min_length=1, max_length=200)
    team_id: str | None = Field(default=None, min_length=1, max_length=200)
    project_id: ProjectId | None = None


class GivenFile(Input):
    """A file of what is checked."""

    path: str = Field(min_length=1, max_length=1_000, examples=["src/app.py"])
    content: str = Field(max_length=_ONE_FILE)


class GivenDependency(Input):
    """Something it depends on."""

    name: str = Field(min_length=1, max_length=300, examples=["requests"])
    version: str | None = Field(None, max_length=100, examples=["2.31.0"])


class PolicyRef(Input):
    """A policy that the work was done under, as its author knew it."""

    id: PolicyId
    version: str | None = Field(None, max_length=200, description="The revision that the author knew.")


def _named(value: Any) -> Any:
    """A dependency may be given by its name alone."""
    return {"name": value} if isinstance(value, str) else value


class CheckedContext(Input):
    """What is to be judged; what is not given is not judged."""

    path: str | None = Field(None, min_length=1, max_length=1_000, description="The path of a single file.")
    content: str | None = Field(None, max_length=_ONE_FILE, description="The content of that file.")
    files: list[GivenFile] = Field([], max_length=5_000, description="Several files, for a whole project.")
    dependencies: list[Annotated[GivenDependency, BeforeValidator(_named)]] | None = Field(None, max_length=10_000)
    imports: list[Annotated[str, Field(min_length=1, max_length=300)]] | None = Field(None, max_length=10_000)
    config: dict[str, Any] | None = None
    action: str | None = Field(None, min_length=1, max_length=250, description="What is about to be done.")
    resource: Resource | None = Field(None, description="What the action is about, as its envelope has it.")
    matter: Matter | None = Field(None, description="The matter of the action, as its envelope has it.")
    on_behalf_of: str | None = Field(None, max_length=200, description="For whom the action is done.")
    input: dict[str, Any] | None = Field(None, description="The input of the action, as its envelope has it.")
    policy_refs: list[PolicyRef] | None = Field(
        None, max_length=1_000, description="The policies that were followed: what is missing or outdated is reported."
    )

    @property
    def paths(self) -> frozenset[str]:
        """The files that are given."""
        return frozenset({one.path for one in self.files} | ({self.path} if self.path is not None else set()))

    @model_validator(mode="after")
    def _whole_file(self) -> Self:
        if self.content is not None and self.path is None:
            raise ValueError("content needs the path that it belongs to")
        return self


class Validate(Input):
    """Hold something against the policies in force."""

    context: CheckedContext
    target_layer: Layer = Field(description="Policies of this layer and of all above it are to be met.")
    ids: LayerIds = LayerIds()


class Location(Output):
    """Where it was found."""

    file: str
    line: int | None = None


class Breach(Output):
    """A policy that is not met, and why."""

    policy_id: str
    policy_title: str
    layer: str
    mandatory: bool
    constraint: str
    severity: Severity
    message: str
    location: Location | None = None
    fingerprint: str = Field(description="The same for the same violation in the next check.")


class Complaint(Output):
    """A policy that cannot be read, or does not say what it seems to."""

    policy_id: str
    message: str


class Validation(Output):
    """Valid only without any violation, however small."""

    valid: bool
    violations: list[Breach]
    policies: list[str] = Field(description="The ids of the policies that were in force.")
    policy_version: str = Field(description="The revision of the knowledge that they were read from.")
    problems: list[Complaint]
    decision_id: UUID


class CheckDrift(Input):
    """How far a project has drifted; without a context, what was checked last is judged anew."""

    project: ProjectId
    context: CheckedContext | None = None
    ids: LayerIds = LayerIds()


class SuppressedBreach(Output):
    """A violation that somebody answers for."""

    violation: Breach
    suppression_id: UUID
    owner: str
    reason: str
    expires_at: datetime


class IdleRule(Output):
    """A rule that found nothing to be held against."""

    policy_id: str
    constraint: str


class Since(Output):
    """What has changed since the last check of the same project."""

    at: datetime
    drift_score: float
    new: list[str] = Field(description="Fingerprints of violations that were not there.")
    fixed: list[str] = Field(description="Fingerprints of violations that are no more.")
    policies_changed: bool


class DriftReport(Output):
    """The score is failed weight / applicable weight; block weighs 1, warn 0.5, info 0.1."""

    project: str
    drift_score: float
    band: str = Field(description="none, low, medium, high or critical: from 0, 0.2, 0.5 and 0.8 on.")
    applicable_weight: float
    failed_weight: float
    confidence: float = Field(description="The share of the weight in force that had something to judge.")
    needs_review: bool = Field(description="Whether a person should look: the confidence is below 0.7.")
    passed: bool = Field(
        description="The ratchet: nothing is violated that was not in the best accepted state. A first check passes "
        "without a violation of severity block."
    )
    regressions: list[str] = Field(description="Fingerprints of the violations that keep it from passing.")
    accepted_at: datetime | None = Field(description="When the state was accepted that it is compared with.")
    violations: list[Breach]
    suppressed: list[SuppressedBreach]
    idle_rules: list[IdleRule]
    since: Since | None
    policy_version: str
    problems: list[Complaint]
    decision_id: UUID


class Suppress(Input):
    """Answer for a violation until a day."""

    project: ProjectId
    policy_id: PolicyId
    pattern: str | None = Field(None, min_length=1, max_length=1_000, description="Only the rule with this pattern.")
    path: str | None = Field(None, min_length=1, max_length=1_000, description="Only in files that this glob matches.")
    reason: Name
    owner: Subject | None = Field(None, description="Who answers for it; the caller when unset.")
    expires_at: AwareDatetime = Field(description="When it ends; at most a year from now.")


class SuppressionRef(Input):
    """Which suppression."""

    suppression_id: UUID


class ListSuppressions(ListInput):
    """Which suppressions."""

    project: ProjectId | None = None
    include_ended: bool = Field(default=False, description="Also those that have expired or were lifted.")


class Suppression(Output):
    """A violation that somebody answers for, until a day."""

    id: UUID
    project: str
    policy_id: str
    pattern: str | None
    path: str | None
    reason: str
    owner: str
    created_by: str
    created_at: datetime
    expires_at: datetime
    lifted_at: datetime | None = None


class ListPolicies(Input):
    """Which policies are in force."""

    target_layer: Layer = Layer.PROJECT
    ids: LayerIds = LayerIds()
    policy: Revision | None = Field(None, description="At this revision of the knowledge; the newest when unset.")


class DemandView(Output):
    """A rule in force."""

    policy_id: str
    policy_title: str
    layer: str
    mandatory: bool
    severity: Severity
    constraint: str
    message: str | None


class ApprovalDemand(Output):
    """Which approvals a policy demands of actions; null is left to the other policies."""

    actions: list[str] = Field(description="Names of actions, or patterns of them.")
    quorum: int
    roles: list[str] | None
    people_only: bool
    valid_hours: int | None


class ActionRules(Output):
    """What a policy says of actions: which approvals they need, and which of them it forbids."""

    policy_id: str
    version: str = Field(description="As refusals and approvals name it.")
    policy_title: str
    built_in: bool = Field(description="It comes with the server and holds for sensitive actions.")
    approvals: ApprovalDemand | None
    cedar: str | None
    unreadable: str | None = Field(description="Why the document cannot be read: until it can, all is forbidden.")


class PoliciesInForce(Output):
    """The rules that hold after all policies have met each other, and those on actions, which hold for all layers."""

    policy_version: str
    rules: list[DemandView]
    action_rules: list[ActionRules]
    problems: list[Complaint]


class ListDecisions(ListInput):
    """Which decisions."""

    project: ProjectId | None = Field(None, description="Only checks of this project's drift.")


class Decision(Output):
    """A validation or a check of drift, as it was decided."""

    id: UUID
    at: datetime
    kind: str
    subject: str
    project: str | None
    target_layer: str
    policy_version: str
    valid: bool
    drift_score: float | None
    violations: int


class Replay(Input):
    """Decide again what was decided, under the policies of another revision."""

    policy: Revision = Field(description="A commit, branch or tag of the knowledge.")
    since: AwareDatetime | None = Field(None, description="Only decisions from this time on.")
    limit: int = Field(500, ge=1, le=5_000, description="How many of the newest at most.")


class Flip(Output):
    """A decision that would be another one."""

    decision_id: UUID
    at: datetime
    kind: str
    subject: str
    project: str | None
    was_valid: bool
    would_be_valid: bool
    new: list[Breach]
    gone: list[str]


class ReplayReport(Output):
    """What would flip."""

    policy_version: str
    replayed: int
    not_replayable: int = Field(description="Decisions on more than is kept of a context.")
    flips: list[Flip]
