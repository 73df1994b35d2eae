"""The worker `governance`: asking for approvals, deciding them and checking against policies, as delegated actions.

Each goes through the gate as the operation of its name, in the name of whoever handed it over: it is allowed, limited,
recorded and done once exactly as on any other door.
"""

import base64
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast
from uuid import UUID

import orjson
from pydantic import Field

from dragoman.context import Role
from dragoman.errors import InvalidInput
from dragoman.operations import Input
from dragoman.services.approvals import operations
from dragoman.services.approvals.models import (
    Action,
    ApprovalView,
    DecideApproval,
    Digest,
    Reason,
    RequestApproval,
    Verdict,
)
from dragoman.services.approvals.ports import Runs
from dragoman.services.contracts import models as documents
from dragoman.services.contracts import operations as contracts
from dragoman.services.governance import operations as governance
from dragoman.services.governance.approval_rules import MOST_APPROVALS, MOST_HOURS
from dragoman.services.governance.models import CheckedContext, GivenDependency, GivenFile, Validate
from dragoman.services.knowledge import operations as knowledge
from dragoman.services.knowledge.constraints import Severity
from dragoman.services.knowledge.items import Layer
from dragoman.services.knowledge.models import CheckKnowledge
from dragoman.services.tasks.actions.envelope import PolicyRef, Resource
from dragoman.services.workers.protocol import Assignment, Capability, Evidence, EvidenceKind, Performed

_LARGEST_TEXT: Final = 1_000_000


class AskForApproval(Input):
    """Ask for consent to another action; on the envelope's own resource, unless another is named."""

    action: Action = Field(description="The action that is to be approved.")
    input: dict[str, Any] = Field(default_factory=dict[str, Any], description="As that action will be given it.")
    resource: Resource | None = Field(None, description="What it acts on; the envelope's resource if absent.")
    policy_refs: list[PolicyRef] = Field([], max_length=50)
    reason: Reason | None = None
    quorum: int | None = Field(None, ge=1, le=MOST_APPROVALS)
    roles: list[Role] | None = Field(None, min_length=1, max_length=6)
    valid_hours: int | None = Field(None, ge=1, le=MOST_HOURS)


class GiveDecision(Input):
    """Decide the approval that is the envelope's resource, unless another is named."""

    decision: Verdict
    approval_id: UUID | None = Field(None, description="The envelope's resource of type approval if absent.")
    reason: Reason | None = None
    digest: Digest | None = None


class CheckPolicies(Input):
    """Hold files, dependencies or a context against what is accepted; the envelope's document if none is given."""

    files: list[GivenFile] = Field([], max_length=1_000)
    dependencies: list[GivenDependency] = Field([], max_length=10_000)
    context: CheckedContext | None = None
    target_layer: Layer = Layer.PROJECT
    min_severity: Severity = Severity.WARN


REQUEST = Capability("approval.request", "Ask for an approval of another action", AskForApproval)
DECIDE = Capability("approval.decide", "Approve or deny", GiveDecision)
CHECK = Capability(
    "policy.check",
    "Check a document, files or dependencies against the policies in force",
    CheckPolicies,
    permissions=("read:documents",),
)


class GovernanceWorker:
    """Performs what governance can do; a second attempt finds what the first one did."""

    name = "governance"

    def __init__(self, gate: Runs) -> None:
        self._gate = gate
        self._performs: dict[str, Callable[[Assignment], Awaitable[Performed]]] = {
            REQUEST.action: self._request,
            DECIDE.action: self._decide,
            CHECK.action: self._check,
        }

    @property
    def capabilities(self) -> Sequence[Capability]:
        """What it declares."""
        return REQUEST, DECIDE, CHECK

    async def perform(self, assignment: Assignment) -> Performed:
        """Do it, as whoever handed it over."""
        return await self._performs[assignment.envelope.action](assignment)

    async def _request(self, assignment: Assignment) -> Performed:
        given, envelope = cast("AskForApproval", assignment.input), assignment.envelope
        asked = RequestApproval(
            action=given.action,
            resource=given.resource or envelope.resource,
            matter_id=envelope.matter.id,
            input=given.input,
            policy_refs=given.policy_refs,
            reason=given.reason,
            actor=envelope.actor.id,
            on_behalf_of=envelope.actor.on_behalf_of,
            quorum=given.quorum,
            roles=given.roles,
            valid_hours=given.valid_hours,
        )
        made = await self._gate.run(operations.REQUEST, assignment.caller, asked, idempotency_key=_key(assignment))
        return _of_approval(made)

    async def _decide(self, assignment: Assignment) -> Performed:
        given, resource = cast("GiveDecision", assignment.input), assignment.envelope.resource
        decision = DecideApproval(
            approval_id=given.approval_id or _approval_id(resource),
            decision=given.decision,
            reason=given.reason,
            digest=given.digest,
        )
        made = await self._gate.run(
            operations.DECIDE_ONE, assignment.caller, decision, idempotency_key=_key(assignment)
        )
        return _of_approval(made)

    async def _check(self, assignment: Assignment) -> Performed:
        given, caller = cast("CheckPolicies", assignment.input), assignment.caller
        files = [*given.files, *(await self._document(assignment) if _names_nothing(given) else ())]
        checked = CheckKnowledge.model_validate(
            {
                "files": [one.model_dump() for one in files],
                "dependencies": [one.model_dump() for one in given.dependencies],
                "min_severity": given.min_severity,
                "partial": True,
            }
        )
        by_knowledge = await self._gate.run(knowledge.CHECK, caller, checked)
        context = (given.context or CheckedContext.model_validate({})).model_copy(
            update={"files": [*(given.context.files if given.context else ()), *files]}
        )
        by_policies = await self._gate.run(
            governance.VALIDATE, caller, Validate(context=context, target_layer=given.target_layer)
        )
        output: dict[str, Any] = {
            "passed": by_knowledge.passed and by_policies.valid,
            "policy_version": by_policies.policy_version,
            "knowledge": by_knowledge.model_dump(mode="json"),
            "governance": by_policies.model_dump(mode="json"),
        }
        digest = hashlib.sha256(orjson.dumps(output, option=orjson.OPT_SORT_KEYS)).hexdigest()
        uri = f"governance:decision/{by_policies.decision_id}"
        return Performed(output, (Evidence(EvidenceKind.CITATION, digest, uri, datetime.now(UTC)),))

    async def _document(self, assignment: Assignment) -> list[GivenFile]:
        """The text of the document that the envelope is about: what it was made from, or itself where it is text."""
        resource = assignment.envelope.resource
        if resource.type != "document":
            raise InvalidInput.of("input", "files, dependencies or a context are needed, or a document as the resource")
        wanted: dict[str, Any] = {"document_id": resource.id, "length": _LARGEST_TEXT}
        wanted |= {"version": int(resource.version.removeprefix("v"))} if resource.version else {}
        found = await self._text(assignment, wanted)
        return [GivenFile(path=f"documents/{resource.id}.md", content=found)]

    async def _text(self, assignment: Assignment, wanted: dict[str, Any]) -> str:
        read = documents.ReadContent.model_validate(wanted)
        plain = await self._gate.run(contracts.READ_CONTENT, assignment.caller, read)
        if plain.media_type is documents.MediaType.PDF:
            source = read.model_copy(update={"source": True})
            plain = await self._gate.run(contracts.READ_CONTENT, assignment.caller, source)
        if plain.next_offset is not None:
            raise InvalidInput.of("resource", f"must not exceed {_LARGEST_TEXT} bytes of text to be checked")
        return base64.b64decode(plain.content).decode(errors="replace")


def _key(assignment: Assignment) -> str:
    return f"task:{assignment.task_id}"


def _names_nothing(given: CheckPolicies) -> bool:
    return not given.files and not given.dependencies and given.context is None


def _approval_id(resource: Resource) -> UUID:
    try:
        if resource.type == "approval":
            return UUID(resource.id)
    except ValueError:
        pass
    raise InvalidInput.of("input.approval_id", "is needed, unless the resource is of type approval")


def _of_approval(made: ApprovalView) -> Performed:
    """The evidence of an approval is what it is for."""
    evidence = Evidence(EvidenceKind.APPROVAL, made.digest, f"approval:{made.approval_id}", datetime.now(UTC))
    return Performed(made.model_dump(mode="json"), (evidence,))
