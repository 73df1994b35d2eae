"""What the engine writes: a new task, or a step of one. Each is held to the lifecycle when it is made.

A step carries its audit record, so that what is written cannot be separated from the record of it. A step of an action
has to have one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from dragoman.services.audit.store import Line
from dragoman.services.tasks.engine.leases import Lease
from dragoman.services.tasks.engine.store_keys import KeyClaim, KeyRelease
from dragoman.services.tasks.events import Loggable, StatusEvent, check_path
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Json


class LaneName(StrEnum):
    """Who runs a task: the turn of a conversation is run by its agent, an action by a worker."""

    TURN = "turn"
    ACTION = "action"


class Queue(StrEnum):
    """What a step does to the place of its task in the queue.

    READY: to be claimed, after `delay_s` and at the latest `until`. WAIT: for a person, and claimed only when `until`
    comes. LEASE: run by `worker`, unless another task of its key comes first. END: nothing more is to be done.
    """

    KEEP = "keep"
    READY = "ready"
    WAIT = "wait"
    LEASE = "lease"
    END = "end"


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True, kw_only=True)
class Birth:
    """A new task, with everything that has happened to it already.

    With `queue` it is to be run: by `worker` where one is named, else by whoever claims it. Of several with the same
    `fifo_key` only the first runs, and the others are blocked until it rests.
    """

    tenant: UUID
    id: UUID
    context_id: str
    owner: str
    caller: Json
    state: str
    events: list[Loggable]
    lane: str = LaneName.TURN
    alias: str | None = None
    skill: str | None = None
    status_at: datetime = field(default_factory=_now)
    message: Json | None = None
    error: Json | None = None
    slot: Json | None = None
    history: list[Json] = field(default_factory=list[Json])
    artifacts: list[Json] = field(default_factory=list[Json])
    metadata: Json = field(default_factory=dict[str, Any])
    attempt: int = 1
    queue: bool = False
    worker: UUID | None = None
    run_at: datetime | None = None
    fifo_key: str | None = None
    place: int = 0
    # Not part of the document: orjson leaves out what begins with an underscore.
    _claim: KeyClaim | None = None
    _said: Line | None = None

    def __post_init__(self) -> None:
        first = self.events[0]
        # A further run begins where the one before ended.
        before = first.before if isinstance(first, StatusEvent) else None
        if check_path(before, self.events) is not State(self.state):
            raise ValueError(f"the events of the new task {self.id} do not lead to {self.state}")

    @property
    def claim(self) -> KeyClaim | None:
        """The idempotency key of its sender."""
        return self._claim

    @property
    def said(self) -> Line | None:
        """The audit record of the message that began the turn."""
        return self._said


@dataclass(slots=True, kw_only=True)
class ActionBirth(Birth):
    """A new run of an action, with its envelope and the record of who handed it over."""

    canonical: UUID
    run: int
    actor: str
    key: str
    digest: str
    action: str
    matter: str
    correlation_id: str
    max_attempts: int
    envelope: Json
    deadline: datetime | None = None
    dry_run: bool = False
    waits_for: list[str] | None = None
    governance: Json = field(default_factory=dict[str, Any])
    _record: Line

    @property
    def record(self) -> Line:
        """The audit record of its submission."""
        return self._record


@dataclass(slots=True, kw_only=True)
class Step:
    """What happens to a stored task, in one write.

    With `owner` and `attempt` it is a step of that attempt, and refused when the attempt no longer has the task. A step
    to another state is refused unless the task is still in the state that its events begin from. With `head_only` it is
    refused, too, when other tasks of its key come first.
    """

    tenant: UUID
    id: UUID
    events: list[Loggable]
    lane: str = LaneName.TURN
    owner: UUID | None = None
    attempt: int | None = None
    expected: str | None = None
    state: str | None = None
    skill: str | None = None
    status_at: datetime = field(default_factory=_now)
    message: Json | None = None
    error: Json | None = None
    slot: Json | None = None
    history: list[Json] = field(default_factory=list[Json])
    artifacts: list[Json] | None = None
    queue: str = Queue.KEEP
    worker: UUID | None = None
    delay_s: float = 0.0
    until: datetime | None = None
    fifo_key: str | None = None
    caller: Json | None = None
    governance: Json | None = None
    waits_for: list[str] | None = None
    answer: Json | None = None
    more_attempts: int = 0
    head_only: bool = False
    place: int = 0
    _claim: KeyClaim | None = None
    _release: KeyRelease | None = None
    _records: tuple[Line, ...] = ()

    def __post_init__(self) -> None:
        self._follow()

    def precede(self, opening: tuple[StatusEvent, ...], *, slot: Json | None, record: Line | None) -> None:
        """Put transitions before all others, with their record.

        A step that only reports becomes a step to the new state, in which the task still has its slot. A step that is
        written again, because that failed, is not changed again.
        """
        if self.events and self.events[0] is opening[0]:
            return
        self.events = [*opening, *self.events]
        if self.state is None:
            self.slot = slot
        self._records = (record, *self._records) if record is not None else self._records
        self._follow()

    def drop_opening(self, opening: tuple[StatusEvent, ...], record: Line | None) -> None:
        """Take back what `precede` did: the transitions were written before, and nobody was told."""
        if not self.events or self.events[0] is not opening[0]:
            return
        self.events = self.events[len(opening) :]
        self._records = tuple(kept for kept in self._records if kept is not record)
        self.expected = None
        if not any(isinstance(event, StatusEvent) for event in self.events):
            self.state = self.slot = None
        self._follow()

    def _follow(self) -> None:
        first = next((event for event in self.events if isinstance(event, StatusEvent)), None)
        if first is None:
            if self.state is not None:
                raise ValueError(f"a step to {self.state} says so in its events")
            return
        if first.before is None:
            raise ValueError("a step begins where its task is")
        self.expected = first.before
        self.state = check_path(first.before, self.events)
        if self.lane == LaneName.ACTION and not self._records:
            raise ValueError("a step of an action has an audit record")

    @classmethod
    def of(cls, lease: Lease, tenant: UUID, events: Iterable[Loggable], **details: Any) -> "Step":
        """Make a step of the attempt that holds the lease."""
        return cls(
            tenant=tenant,
            id=lease.task_id,
            events=list(events),
            owner=lease.owner,
            attempt=lease.attempt,
            fifo_key=lease.fifo_key,
            **details,
        )

    @property
    def claim(self) -> KeyClaim | None:
        """The idempotency key of the message that is part of it."""
        return self._claim

    @property
    def release(self) -> KeyRelease | None:
        """The idempotency key that the sender of a refused message may use again."""
        return self._release

    @property
    def records(self) -> tuple[Line, ...]:
        """The audit records of the step."""
        return self._records


@dataclass(frozen=True, slots=True)
class Written:
    """A step that was written: the last event number of its task, its attempt, and whether it waits behind another."""

    seq: int
    attempt: int
    blocked: bool
