"""What a worker can do, what it is given, and what it gives back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from dragoman.context import Caller
from dragoman.operations import Input
from dragoman.services.tasks.actions.envelope import Envelope

if TYPE_CHECKING:  # the shell reads the models of all services, and would load all of kit with this
    from dragoman.kit import Effects

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Capability:
    """One action that a worker performs, and what it takes.

    A `sensitive` action needs policies and approvals. `required` actions are the core of the contracts profile, the
    others its optional extensions. An attempt that lasts longer than `timeout_s` is stopped and counts as failed;
    at most `at_once` run in one process.
    """

    action: str
    summary: str
    input: type[Input]
    version: str = "1"
    sensitive: bool = False
    required: bool = True
    timeout_s: float = 60
    at_once: int = 100


class EvidenceKind(StrEnum):
    """What a piece of evidence shows."""

    DOCUMENT = "document"
    SIGNATURE = "signature"
    APPROVAL = "approval"
    AUDIT = "audit"
    CITATION = "citation"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Something that shows afterwards what was done; `sha256` is of what stands at `uri`."""

    kind: EvidenceKind
    sha256: str
    uri: str
    captured_at: datetime


@dataclass(frozen=True, slots=True)
class Performed:
    """What came of an action."""

    output: Json
    evidence: tuple[Evidence, ...] = ()


def _goes_on() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Assignment:
    """One attempt at one task, for one worker.

    `caller` is who submitted it, as they were then; `input` is what the capability's model made of the envelope's.
    `task_id` is the canonical task, whichever run this is. Words on how far it is go through `report_progress`.
    A worker that needs to know something raises `InputNeeded`: the task parks, and is tried again with all that was
    said in `answers`, oldest first. `cancelled` tells, when the work is stopped, whether somebody cancelled the task or
    merely this attempt ends.
    """

    caller: Caller
    task_id: UUID
    envelope: Envelope
    input: Input
    attempt: int
    effects: "Effects"
    governance: Json = field(default_factory=dict[str, Any])
    answers: tuple[Json, ...] = ()
    cancelled: Callable[[], bool] = _goes_on


class Worker(Protocol):
    """Performs actions. It may be tried again after any crash, so what it does outside goes through the effects."""

    @property
    def name(self) -> str:
        """As it stands in the history: `signature`, `a2a:partner`."""
        ...

    @property
    def capabilities(self) -> Sequence[Capability]:
        """What it declares."""
        ...

    async def perform(self, assignment: Assignment) -> Performed:
        """Do it.

        Raises:
            InputNeeded: it cannot go on without an answer; it is called again with the answers so far.
            DragomanError: it could not be done; `retryable` says whether it is worth another attempt.
        """
        ...
