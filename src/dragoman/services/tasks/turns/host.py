"""What a running skill asks of the server: state that lasts, side effects that happen once, progress for followers.

Nothing is done for an attempt that no longer has its task. When our own database is away, the turn is postponed: its
skill is not asked to deal with that.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from pydantic import JsonValue

from dragoman import kit
from dragoman.errors import UpstreamUnavailable
from dragoman.services.tasks import events
from dragoman.services.tasks.engine.retries import is_database_away
from dragoman.services.tasks.errors import ArtifactTooLarge, EffectBusy, StateTooLarge, TaskStateTooLarge
from dragoman.services.tasks.events import Json
from dragoman.services.tasks.models import AttemptRef
from dragoman.services.tasks.store import TaskStore, ThreadStore
from dragoman.services.tasks.turns.drafts import Drafts
from dragoman.services.tasks.turns.execution import Job, TurnPostponed

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Sizes:
    """The most that a conversation holds, that a skill keeps for a task, and that a task makes."""

    thread_bytes: int
    state_bytes: int
    artifact_bytes: int


class TurnHost:
    """Implements kit's ports for one turn."""

    def __init__(self, job: Job, store: TaskStore, threads: ThreadStore, limits: Sizes) -> None:
        self._job = job
        self._store = store
        self._threads = threads
        self._limits = limits
        self._saving = asyncio.Lock()
        self._saved = False
        self._chunks: dict[str, list[kit.Artifact]] = {}
        self._sizes: dict[str, int] = {}

    async def recall(self) -> None:
        """Take up the drafts of earlier turns: they become final with the others."""
        drafts = Drafts()
        async for logged in self._store.replay(self._tenant, self._job.task_id):
            drafts.take(logged.event)
        for artifact in drafts.artifacts:
            content = kit.Content.model_validate({"parts": artifact["parts"]})
            draft = kit.Artifact(name=artifact["name"], content=content, description=artifact.get("description"))
            self._chunks[draft.name], self._sizes[draft.name] = [draft], draft.size_bytes

    @property
    def drafts(self) -> dict[str, kit.Artifact]:
        """The artifacts that were shown on the way, each joined from its chunks."""
        return {name: kit.Artifact.joined(chunks) for name, chunks in self._chunks.items()}

    async def once(
        self,
        step: str,
        request: Json,
        perform: Callable[[str], Awaitable[Json]],
        *,
        find: Callable[[str], Awaitable[Json | None]] | None = None,
        repeatable: bool = False,
    ) -> Json:
        """Perform a side effect unless it was performed before; the task is stored first, so that there is a ledger."""
        await self._ask(self._job.store())
        return await self._ask(self._job.effects.once(step, request, perform, find=find, repeatable=repeatable))

    async def load(self, scope: kit.Scope, key: str) -> JsonValue:
        """Return the value, or None."""
        if scope == "task":
            return await self._ask(self._store.load(self._tenant, self._job.task_id, key))
        return await self._ask(self._threads.load(self._tenant, self._job.thread, key))

    async def save(self, scope: kit.Scope, key: str, value: JsonValue) -> None:
        """Keep the value.

        Raises:
            TaskStateTooLarge, StateTooLarge: the task or the conversation would hold more than it may.
        """
        if scope == "task":
            # One by one: each is checked against what the others came to.
            async with self._saving:
                self._saved = True
                kept = await self._ask(
                    self._store.save(
                        self._tenant, self._job.task_id, key, value, self._limits.state_bytes, attempt=self._job.attempt
                    )
                )
            if not kept:
                raise TaskStateTooLarge(limit_bytes=self._limits.state_bytes)
            return
        await self._ask(self._job.store())  # the conversation is born with its first task
        kept = await self._ask(
            self._threads.save(
                self._tenant, self._job.thread, key, value, self._limits.thread_bytes, attempt=self._attempt
            )
        )
        if not kept:
            raise StateTooLarge(limit_bytes=self._limits.thread_bytes)

    async def modify(self, scope: kit.Scope, key: str, change: Callable[[JsonValue], JsonValue]) -> JsonValue:
        """Replace the value by what `change` makes of it, against all other processes.

        Raises:
            TaskStateTooLarge, StateTooLarge: the task or the conversation would hold more than it may.
        """
        if scope == "task":
            async with self._saving:
                self._saved = True
                return await self._ask(
                    self._store.modify(
                        self._tenant,
                        self._job.task_id,
                        key,
                        change,
                        self._limits.state_bytes,
                        attempt=self._job.attempt,
                    )
                )
        await self._ask(self._job.store())  # the conversation is born with its first task
        return await self._ask(
            self._threads.modify(
                self._tenant, self._job.thread, key, change, self._limits.thread_bytes, attempt=self._attempt
            )
        )

    async def remove(self, scope: kit.Scope, key: str) -> None:
        """Forget the value."""
        if scope == "task":
            await self._ask(self._store.remove(self._tenant, self._job.task_id, key, attempt=self._job.attempt))
        else:
            await self._ask(self._threads.remove(self._tenant, self._job.thread, key, attempt=self._attempt))

    async def forget(self) -> None:
        """Remove what the skill kept for the task: its answer is a `Reply`, of which nothing is kept."""
        if self._saved:
            await self._ask(self._store.clear(self._tenant, self._job.task_id))

    async def update(self, text: str, percent: float | None) -> None:
        """Tell followers how far it is."""
        await self._ask(self._job.report(events.ProgressEvent(text, percent)))

    async def log(self, text: str, level: kit.LogLevel) -> None:
        """Tell followers how it is done; by itself this makes no task of work that ends at once."""
        await self._ask(self._job.note(events.LogEvent(text, level)))

    async def artifact(self, artifact: kit.Artifact, *, append: bool, last_chunk: bool) -> None:
        """Show a draft, or a further piece of one.

        Raises:
            ArtifactTooLarge: with it, the task would have made more than it may.
        """
        size = artifact.size_bytes + (self._sizes.get(artifact.name, 0) if append else 0)
        if size + sum(self._sizes.values()) - self._sizes.get(artifact.name, 0) > self._limits.artifact_bytes:
            raise ArtifactTooLarge(limit_bytes=self._limits.artifact_bytes)
        self._sizes[artifact.name] = size
        chunks = self._chunks.setdefault(artifact.name, [])
        if not append:
            chunks.clear()
        chunks.append(artifact)
        event = events.ArtifactEvent(artifact_json(artifact), append=append, last=last_chunk)
        await self._ask(self._job.report(event, linger=True))

    async def activity(self, activity: kit.Activity, tools: tuple[str, ...]) -> None:
        """Note what the task is busy with, for its history; an answer that comes at once is not held up by it."""
        await self._ask(self._job.note(events.ActivityEvent(activity.value, tuple(tools))))

    async def _ask(self, answer: Awaitable[R]) -> R:
        """Return the answer to an attempt that still has its task.

        Raises:
            AttemptFenced: the attempt no longer has its task.
            TurnPostponed: the database is away, or another attempt is at the effect: the turn is run again later.
        """
        try:
            self._job.lease.check()
            return await answer
        except EffectBusy as error:
            raise TurnPostponed(error) from error
        except UpstreamUnavailable as error:
            if is_database_away(error):
                raise TurnPostponed(error) from error
            raise
        finally:
            _close(answer)

    @property
    def _attempt(self) -> AttemptRef:
        return AttemptRef(self._job.task_id, self._job.attempt)

    @property
    def _tenant(self) -> UUID:
        return self._job.caller.tenant


def _close(answer: Any) -> None:
    """Close a coroutine that was not awaited."""
    if asyncio.iscoroutine(answer):
        answer.close()


def artifact_json(artifact: kit.Artifact) -> Json:
    """Return an artifact as the task keeps it; its name is its id within the task."""
    fields: Json = {"id": artifact.name, "name": artifact.name, "parts": parts_json(artifact.content) or []}
    if artifact.description:
        fields["description"] = artifact.description
    return fields


def parts_json(content: kit.Content | None) -> list[Json] | None:
    """Return the parts of a message or an artifact as the task keeps them."""
    if content is None:
        return None
    parts = content.model_dump(mode="json", exclude_none=True)["parts"]
    # Nothing is a value too.
    return [{"data": None, **part} if part["kind"] == "data" else part for part in parts]
