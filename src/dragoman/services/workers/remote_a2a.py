"""An A2A agent as a worker: sends it the envelope once, and follows its task to the end."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, cast

import httpx

from dragoman.context import report_progress
from dragoman.kit import Content, TaskState
from dragoman.kit.toolsets import A2aPeer, PeerTask
from dragoman.services.tasks.actions.errors import InputNeeded
from dragoman.services.tasks.models import IDEMPOTENCY_EXTENSION
from dragoman.services.workers.protocol import Assignment, Capability, Json, Performed
from dragoman.services.workers.remote_answers import WorkerFailed, failure_of, output_of, performed

_CANCEL_S: Final = 3.0
_ENDED_BADLY: Final = {
    TaskState.FAILED: "failed",
    TaskState.REJECTED: "rejected",
    TaskState.CANCELLED: "cancelled",
}


@dataclass(frozen=True, slots=True)
class A2aWorker:
    """A worker at an A2A agent. The effects store its task, so that another attempt follows it and sends nothing."""

    name: str
    capabilities: tuple[Capability, ...]
    url: str
    headers: Callable[[], dict[str, str]] = field(repr=False)
    connect: Callable[[], httpx.AsyncClient] = field(repr=False)

    async def perform(self, assignment: Assignment) -> Performed:
        """Send the work to the agent and wait for its task to end.

        After a retryable failure of the agent's task, the next attempt sends a new one.

        Raises:
            InputNeeded: the agent asks a question that has no answer yet.
            DragomanError: the action failed; `retryable` says whether another attempt may succeed.
        """
        peer = A2aPeer(self.connect(), self.url, name=self.name, headers=self.headers())
        takes_keys = await peer.supports(IDEMPOTENCY_EXTENSION)
        conversation = _Conversation(peer, assignment, self.name, takes_keys=takes_keys)
        for number in count(1):
            # Shielded: work that is stopped meanwhile still needs the id of the task to cancel.
            opening = asyncio.ensure_future(conversation.open(number))
            try:
                task = await conversation.follow(await asyncio.shield(opening), number)
            except asyncio.CancelledError:
                await conversation.cancel_peer(opening)
                raise
            if task.state is TaskState.COMPLETED:
                return performed(output_of(task.message, task.artifacts))
            error = _failure(self.name, task)
            if not error.retryable or conversation.sent:
                raise error
        raise AssertionError("unreachable: count() has no end")


@dataclass(slots=True)
class _Conversation:
    """The messages of one attempt to the agent; `sent` when it sent any, and did not only read the stored ones."""

    peer: A2aPeer
    assignment: Assignment
    name: str
    takes_keys: bool
    sent: bool = False

    async def open(self, number: int) -> PeerTask:
        """Return the agent's task for this work: the stored one, or a new one."""
        envelope = self.assignment.envelope
        work: Json = {
            "action": envelope.action,
            "envelope": envelope.model_dump(mode="json", exclude_none=True),
            "input": self.assignment.input.model_dump(mode="json", exclude_none=True),
        }
        return await self._send(f"a2a.send.{number}", work)

    async def follow(self, task: PeerTask, number: int) -> PeerTask:
        """Return the task when it has ended; its questions are answered from the answers so far."""
        answers = list(self.assignment.answers)
        for place in count(1):
            if task.id is None:
                return task
            await report_progress(f"{self.name} works on it as {task.id}")
            task = await self.peer.follow(task.id)
            if task.state is not TaskState.INPUT_REQUIRED:
                return task
            if task.wants_auth:
                raise WorkerFailed(f"the worker {self.name!r} needs an authorization", reason="REMOTE_AUTH_REQUIRED")
            if place > len(answers):
                raise InputNeeded(_question(task.message), worker=self.name)
            await self._send(f"a2a.send.{number}.answer.{place}", answers[place - 1], task)
        raise AssertionError("unreachable: count() has no end")

    async def cancel_peer(self, opening: asyncio.Future[PeerTask]) -> None:
        """Cancel the agent's task if ours was cancelled; if only this attempt stops, the agent goes on."""
        with suppress(Exception):  # best effort: our task has ended already
            async with asyncio.timeout(_CANCEL_S):
                task = await opening
                if task.id is not None and self.assignment.cancelled():
                    await self.peer.cancel(task.id)

    async def _send(self, step: str, content: Json, about: PeerTask | None = None) -> PeerTask:
        async def send(key: str) -> Json:
            self.sent = True
            extensions = (IDEMPOTENCY_EXTENSION,) if self.takes_keys else ()
            place = {"task_id": about.id, "context_id": about.context_id} if about else {}
            return _stored(await self.peer.send(cast("Any", content), key=key, extensions=extensions, **place))

        request: Json = {"worker": self.name, "said": content}
        return _read(await self.assignment.effects.once(step, request, send, repeatable=self.takes_keys))


def _stored(task: PeerTask) -> Json:
    """Return what the effects store: the ids of the task, or the message when there is no task."""
    if task.id is not None:
        return {"task_id": task.id, "context_id": task.context_id}
    return {"message": task.message.model_dump(mode="json") if task.message else None}


def _read(outcome: Json) -> PeerTask:
    if "task_id" in outcome:
        return PeerTask(outcome["task_id"], TaskState.PROCESSING, outcome.get("context_id"))
    message = outcome["message"]
    return PeerTask(None, TaskState.COMPLETED, message=Content.model_validate(message) if message else None)


def _question(message: Content | None) -> str:
    return (message.text if message else "") or "The worker needs more input."


def _failure(worker: str, task: PeerTask) -> WorkerFailed:
    message = task.message or Content()
    errors = [part["error"] for part in message.data if isinstance(part, dict) and isinstance(part.get("error"), dict)]
    error = cast("dict[str, Any]", errors[0]) if errors else None
    text = message.text or str((error or {}).get("message", ""))
    return failure_of(worker, _ENDED_BADLY[task.state], text, error, passing=task.state is TaskState.FAILED)
