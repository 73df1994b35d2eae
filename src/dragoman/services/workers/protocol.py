"""The protocol of workers: capabilities, assignments and results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from dragoman.context import Caller, Role
from dragoman.operations import Input
from dragoman.services.tasks.actions.envelope import Envelope

if TYPE_CHECKING:  # the shell reads the models of all services, and would load all of kit with this
    from dragoman.kit import Effects

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Capability:
    """One action that a worker performs, with its input and its limits.

    A `sensitive` action requires policies and approvals; one that is `sensitive_when` requires them for some inputs.
    `approvers` are the roles that may then approve it, where these are fewer than policies say. `required` actions are
    the core of the contracts profile, the others its optional extensions. An attempt that lasts longer than `timeout_s`
    is stopped and counts as failed; at most `at_once` run in one process. The sender of a task needs `permissions`
    beside `write:tasks`: a worker acts with the rights of the server.
    """

    action: str
    summary: str
    input: type[Input]
    version: str = "1"
    sensitive: bool = False
    required: bool = True
    timeout_s: float = 60
    at_once: int = 100
    permissions: tuple[str, ...] = ()
    sensitive_when: Callable[[Json], bool] | None = None
    approvers: frozenset[Role] | None = None

    def is_sensitive(self, given: Json) -> bool:
        """Check whether the action requires policies and approvals with this input."""
        return self.sensitive or (self.sensitive_when is not None and self.sensitive_when(given))

    def approvers_for(self, given: Json) -> frozenset[Role] | None:
        """Return the roles that approvals of this input are reserved for; None where policies alone say it."""
        return self.approvers if self.is_sensitive(given) else None


class EvidenceKind(StrEnum):
    """The kind of a piece of evidence."""

    DOCUMENT = "document"
    SIGNATURE = "signature"
    APPROVAL = "approval"
    AUDIT = "audit"
    CITATION = "citation"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Proof of what was done; `sha256` is that of the bytes at `uri`."""

    kind: EvidenceKind
    sha256: str
    uri: str
    captured_at: datetime


@dataclass(frozen=True, slots=True)
class Performed:
    """The result of an action."""

    output: Json
    evidence: tuple[Evidence, ...] = ()


def _not_cancelled() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Assignment:
    """One attempt at one task, for one worker.

    `caller` is the caller that submitted the task; `input` is the input of the envelope, read by the model of the
    capability. `task_id` is the canonical task, the same for all runs. Report progress with `report_progress`. A worker
    that needs an answer raises `InputNeeded`: the task waits, and is tried again with all `answers`, oldest first. When
    the work is stopped, `cancelled` returns whether the task was cancelled, or only this attempt ends.
    """

    caller: Caller
    task_id: UUID
    envelope: Envelope
    input: Input
    attempt: int
    effects: "Effects"
    governance: Json = field(default_factory=dict[str, Any])
    answers: tuple[Json, ...] = ()
    cancelled: Callable[[], bool] = _not_cancelled


class Worker(Protocol):
    """Performs actions. A task may be tried again after a crash, so side effects go through `assignment.effects`."""

    @property
    def name(self) -> str:
        """The name in the history of a task: `signature`, `a2a:partner`."""
        ...

    @property
    def capabilities(self) -> Sequence[Capability]:
        """The actions that the worker declares."""
        ...

    async def perform(self, assignment: Assignment) -> Performed:
        """Perform the action and return its result.

        Raises:
            InputNeeded: the worker needs an answer; it is called again with all answers so far.
            DragomanError: the action failed; `retryable` says whether another attempt may succeed.
        """
        ...
