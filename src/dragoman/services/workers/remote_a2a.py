"""An A2A agent as a worker: it is sent the envelope once, and its task is followed to the end."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, cast

import httpx

from dragoman.context import report_progress
from dragoman.infra.outbound import Guard
from dragoman.kit import Content, TaskState
from dragoman.kit.toolsets import A2aPeer, PeerTask
from dragoman.services.tasks.actions.errors import InputNeeded
from dragoman.services.tasks.models import IDEMPOTENCY_EXTENSION
from dragoman.services.workers.protocol import Assignment, Capability, Json, Performed
from dragoman.services.workers.remote_answers import WorkerFailed, failure_of, output_of, performed

_CALL_OFF_S: Final = 3.0
_ENDED_BADLY: Final = {
    TaskState.FAILED: "failed",
    TaskState.REJECTED: "rejected",
    TaskState.CANCELLED: "cancelled",
}


@dataclass(frozen=True, slots=True)
class A2aWorker:
    """One agent. Its task is remembered by the effects, so that another attempt follows it and sends nothing."""

    name: str
    capabilities: tuple[Capability, ...]
    url: str
    headers: Callable[[], dict[str, str]] = field(repr=False)
    guard: Guard = field(repr=False)

    async def perform(self, assignment: Assignment) -> Performed:
        """Hand it over and wait.

        A task of the agent that failed in passing is followed by another one in the next attempt.

        Raises:
            InputNeeded: the agent asks something, and the answer is not among those given so far.
            DragomanError: it could not be done; `retryable` says whether it is worth another attempt.
        """
        # The guard is shared by all; closing a client must not close it.
        http = httpx.AsyncClient(transport=self.guard, trust_env=False)
        peer = A2aPeer(http, self.url, name=self.name, headers=self.headers())
        keeps_keys = await peer.supports(IDEMPOTENCY_EXTENSION)
        conversation = _Conversation(peer, assignment, self.name, keeps_keys=keeps_keys)
        for number in count(1):
            # Shielded, so that work that is stopped meanwhile still learns which task it has to call off.
            opening = asyncio.ensure_future(conversation.open(number))
            try:
                task = await conversation.follow(await asyncio.shield(opening), number)
            except asyncio.CancelledError:
                await conversation.call_off(opening)
                raise
            if task.state is TaskState.COMPLETED:
                return performed(output_of(task.message, task.artifacts))
            error = _ended(self.name, task)
            if not error.retryable or conversation.spoke:
                raise error
        raise AssertionError("the numbers have no end")


@dataclass(slots=True)
class _Conversation:
    """One attempt's words with the agent; `spoke` when it sent anything, and not only remembered."""

    peer: A2aPeer
    assignment: Assignment
    name: str
    keeps_keys: bool
    spoke: bool = False

    async def open(self, number: int) -> PeerTask:
        """The agent's task for this work: the one that is remembered, or a new one."""
        given, envelope = self.assignment.input, self.assignment.envelope
        work: Json = {
            "action": envelope.action,
            "envelope": envelope.model_dump(mode="json", exclude_none=True),
            "input": given.model_dump(mode="json", exclude_none=True),
        }
        return await self._say(f"a2a.send.{number}", work)

    async def follow(self, task: PeerTask, number: int) -> PeerTask:
        """The task when it has ended; what it asks is answered from the answers that there are."""
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
                raise InputNeeded(_words(task.message), worker=self.name)
            await self._say(f"a2a.send.{number}.answer.{place}", answers[place - 1], task)
        raise AssertionError("the numbers have no end")

    async def call_off(self, opening: asyncio.Future[PeerTask]) -> None:
        """Pass a cancellation on; a process that merely stops notes what it sent, and leaves the agent at work."""
        with suppress(Exception):  # the best that can be done for a task that nobody wants any more
            async with asyncio.timeout(_CALL_OFF_S):
                task = await opening
                if task.id is not None and self.assignment.cancelled():
                    await self.peer.cancel(task.id)

    async def _say(self, step: str, said: Json, about: PeerTask | None = None) -> PeerTask:
        async def send(key: str) -> Json:
            self.spoke = True
            extensions = (IDEMPOTENCY_EXTENSION,) if self.keeps_keys else ()
            place = {"task_id": about.id, "context_id": about.context_id} if about else {}
            return _kept(await self.peer.send(cast("Any", said), key=key, extensions=extensions, **place))

        request: Json = {"worker": self.name, "said": said}
        return _remembered(await self.assignment.effects.once(step, request, send, repeatable=self.keeps_keys))


def _kept(task: PeerTask) -> Json:
    """What is to be remembered: where the task is; or all that was said, when there is no task."""
    if task.id is not None:
        return {"task_id": task.id, "context_id": task.context_id}
    return {"message": task.message.model_dump(mode="json") if task.message else None}


def _remembered(kept: Json) -> PeerTask:
    if "task_id" in kept:
        return PeerTask(kept["task_id"], TaskState.PROCESSING, kept.get("context_id"))
    said = kept["message"]
    return PeerTask(None, TaskState.COMPLETED, message=Content.model_validate(said) if said else None)


def _words(message: Content | None) -> str:
    return (message.text if message else "") or "The worker needs something more."


def _ended(worker: str, task: PeerTask) -> WorkerFailed:
    told = task.message or Content()
    errors = [one["error"] for one in told.data if isinstance(one, dict) and isinstance(one.get("error"), dict)]
    error = cast("dict[str, Any]", errors[0]) if errors else None
    words = told.text or str((error or {}).get("message", ""))
    return failure_of(worker, _ENDED_BADLY[task.state], words, error, passing=task.state is TaskState.FAILED)
