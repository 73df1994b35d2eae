"""A task as the core keeps it. Every door shows a view of this; messages and parts are JSON as kit writes them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson

from dragoman.services.tasks.lifecycle import RESTING, TERMINAL, State

Json = dict[str, Any]
# Of a log: as it is, or as the text that it will be.
Event = Json | orjson.Fragment
# What the idempotency key of a message is called in its metadata.
KEY_NAMES: Final = ("idempotencyKey", "idempotency_key", "idempotency-key")
# What an agent declares on its card that keeps keys as we do.
IDEMPOTENCY_EXTENSION: Final = "urn:dragoman:a2a:idempotency:1"


@dataclass(slots=True)
class Task:
    """How a task stands.

    A message is `{id, role: user|agent, parts, metadata?, key?, withheld?}` (the key is its sender's idempotency key,
    and what is withheld are secrets), an artifact `{id, name, description?, parts}`; a part is one of kit's. The error
    is `{code, message, details}`, the slot of a task that waits `{value, auth?, asks?, answers?, asking?}`: kit's, and
    an id for what is asked.
    """

    tenant_id: UUID
    id: UUID
    alias: str | None
    context_id: str
    owner: str
    skill: str | None
    state: State
    status_at: datetime
    message: Json | None
    error: Json | None
    slot: Json | None
    history: list[Json]
    artifacts: list[Json]
    metadata: Json
    caller: Json
    seq: int
    attempt: int
    created_at: datetime
    # When the work that is under way began; known to whoever took it over.
    started_at: datetime | None = None
    # Whether it is shown to one who sent the same message again under the same key.
    replayed: bool = False
    # Artifacts with secrets, for those who wait for the task or follow it where it runs; they are never stored.
    once: list[Json] = field(default_factory=list[Json], repr=False)

    @property
    def terminal(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state in TERMINAL

    @property
    def delegated(self) -> bool:
        """Whether it was handed over in an envelope; else it is a turn of a conversation."""
        return "action" in self.metadata

    @property
    def wants_auth(self) -> bool:
        """Whether what it waits for is an authorization."""
        return self.state is State.INPUT_REQUIRED and bool((self.slot or {}).get("auth"))

    @property
    def resting(self) -> bool:
        """Whether nothing happens until somebody does something."""
        return self.state in RESTING


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that is no task: a message of the agent, of which nothing is kept."""

    context_id: str
    message: Json


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened to a task: a status, a message, an artifact, progress, or a line of its log."""

    seq: int
    at: datetime
    body: Json


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message from outside, and what its sender wants of the answer.

    `attach` is called with the task and its last event number before anything comes of the message. `skill` is whose
    work a new task is, where that is known. With `seen`, an answer is one to a task whose last event that was.
    """

    message: Json
    context_id: str | None = None
    task_ref: str | None = None
    alias: str | None = None
    metadata: Json | None = None
    idempotency_key: str | None = None
    wait_s: float | None = None
    attach: Callable[[Task, int], Awaitable[object]] | None = None
    skill: str | None = None
    seen: int | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which tasks to list."""

    limit: int = 50
    context_id: str | None = None
    states: tuple[State, ...] | None = None
    auth: bool | None = None
    since: datetime | None = None
    after: tuple[datetime, UUID] | None = None
