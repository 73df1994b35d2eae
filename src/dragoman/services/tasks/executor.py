"""Doing the work: an operation that the message names, or a turn of the agent that is served."""

import asyncio
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

import orjson
from pydantic import JsonValue

from dragoman import kit
from dragoman.context import progress_to, within_task
from dragoman.errors import InvalidInput
from dragoman.infra.ids import new_text_id
from dragoman.infra.telemetry import TaskMetrics
from dragoman.services.tasks.drafts import Drafts
from dragoman.services.tasks.errors import ArtifactTooLarge, SecretsGone, StateTooLarge, TaskStateTooLarge
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Json
from dragoman.services.tasks.store import TaskStore, ThreadStore
from dragoman.services.tasks.work import Job, Made, Outcome, Tools


@dataclass(frozen=True, slots=True)
class Sizes:
    """The most that a conversation holds, that a skill keeps for a task, and that a task makes."""

    thread_bytes: int
    state_bytes: int
    artifact_bytes: int


class TaskExecutor:
    """Calls a named operation with no detour; everything else is a turn of the agent."""

    def __init__(
        self,
        tools: Tools,
        agent: kit.Agent,
        *,
        store: TaskStore,
        threads: ThreadStore,
        sizes: Sizes,
        metrics: TaskMetrics,
    ) -> None:
        self._tools = tools
        self._agent = agent
        self._store = store
        self._threads = threads
        self._sizes = sizes
        self._metrics = metrics
        # These may have a question, which is a matter for their skill.
        self._asking = frozenset(tool.name for tool in agent.tools if tool.may_ask)

    async def execute(self, job: Job) -> Outcome:
        """How the work ended.

        Raises:
            InvalidInput: the message names a tool in a wrong way.
        """
        called = find_tool_call(job.message)
        ref = str(job.task_id)
        with within_task(ref):
            if called is not None and self._tools.has(called[0]) and called[0] not in self._asking:
                self._metrics.routed(kit.How.TOOL)
                # Else the task is the key: whoever runs it again after a crash finds that it was done.
                return await self._call(job, *called, key=job.message.get("key") or f"task:{ref}")
            return await self._turn(job, self._agent)

    def skill_of(self, job: Job) -> str | None:
        """The skill of the tool that the message names, else the one that the task is with."""
        try:
            called = find_tool_call(job.message)
        except InvalidInput:
            return job.skill
        return _skill(called[0]) if called is not None and self._tools.has(called[0]) else job.skill

    def keepable(self, message: Json) -> Json:
        """The message without the secrets of the operations that it names."""
        parts = [self._keepable_part(part) for part in message["parts"]]
        return message if parts == message["parts"] else message | {"parts": parts, "withheld": True}

    def _keepable_part(self, part: Json) -> Json:
        if not _names_tool(part):
            return part
        name, arguments = part["data"]["tool"], part["data"].get("arguments")
        if not isinstance(name, str) or not self._tools.has(name) or name in self._asking:
            return part
        kept = self._tools.keepable(name, arguments)
        return part if kept == arguments else part | {"data": part["data"] | {"arguments": kept}}

    async def _call(self, job: Job, name: str, arguments: Any, *, key: str) -> Outcome:
        async def progress(text: str, percent: float | None) -> None:
            await job.report({"kind": "progress", "text": text, "percent": percent})

        with progress_to(progress):
            made = await self._made(job, name, arguments, key=key)
        if len(orjson.dumps(made.shown)) > self._sizes.artifact_bytes:
            return _outcome(_too_large(self._sizes.artifact_bytes, _skill(name)), {}, job.slot)
        kept, shown = ([_data_artifact(name, data)] for data in (made.kept, made.shown))
        return Outcome(State.SUCCEEDED, skill=_skill(name), artifacts=kept, once=shown if shown != kept else [])

    async def _made(self, job: Job, name: str, arguments: Any, *, key: str) -> Made:
        if not job.message.get("withheld"):
            return await self._tools.run(job.caller, name, arguments, key=key)
        # Another process had the secrets, and died with them.
        done = await self._tools.find_done(job.caller, name, arguments, key=key)
        if done is None:
            raise SecretsGone(name)
        return done

    async def _turn(self, job: Job, agent: kit.Agent) -> Outcome:
        content = kit.Content.model_validate({"parts": job.message["parts"]})
        ports = _Ports(job, self._store, self._threads, self._sizes)
        if job.resumed:
            await ports.recall()
        ctx = kit.Context(
            str(job.task_id),
            job.context_id,
            host=kit.Host(
                state=ports,
                progress=ports,
                cancellation=job.cancellation,
                message_id=job.message.get("id"),
                metadata=job.message.get("metadata") or {},
            ),
            llm=agent.llm,
            instructions=agent.instructions,
            thread=await self._thread(job),
            slot=kit.SkillSlot.load(job.slot) if job.slot else None,
            caller=job.caller,
        )
        turn = await kit.take_turn(agent, ctx, content, skill_id=job.skill)
        if turn.route is not None:
            self._metrics.routed(turn.route)
        drafts = ports.drafts
        if _size(turn.result, drafts) > self._sizes.artifact_bytes:
            turn = _too_large(self._sizes.artifact_bytes, turn.skill_id)
        return _outcome(turn, drafts, job.slot)

    async def _thread(self, job: Job) -> kit.Thread:
        if job.fresh:
            return kit.Thread()
        said = await self._threads.said(job.caller.tenant, job.context_id)
        if said and said[-1] == job.message:  # by its content: clients use one message id for several messages
            said = said[:-1]
        events = [
            (kit.Event.user if message["role"] == "user" else kit.Event.assistant)(
                kit.Content.model_validate({"parts": message["parts"]})
            )
            for message in said
        ]
        return kit.Thread().add_events(events)


class _Ports:
    """What a running skill asks of the server: values that last, and news for those who follow."""

    def __init__(self, job: Job, store: TaskStore, threads: ThreadStore, sizes: Sizes) -> None:
        self._job = job
        self._store = store
        self._threads = threads
        self._most = sizes
        self._saving = asyncio.Lock()
        self._chunks: dict[str, list[kit.Artifact]] = {}
        self._sizes: dict[str, int] = {}

    async def recall(self) -> None:
        """Take up the drafts of earlier turns: they become final with the others."""
        drafts = Drafts()
        async for happening in self._store.replay(self._tenant, self._job.task_id):
            drafts.take(happening)
        for made in drafts.artifacts:
            content = kit.Content.model_validate({"parts": made["parts"]})
            draft = kit.Artifact(name=made["name"], content=content, description=made.get("description"))
            self._chunks[draft.name], self._sizes[draft.name] = [draft], draft.size_bytes

    @property
    def drafts(self) -> dict[str, kit.Artifact]:
        """What was shown on the way, each as a whole."""
        return {name: kit.Artifact.joined(chunks) for name, chunks in self._chunks.items()}

    async def load(self, scope: kit.Scope, key: str) -> JsonValue:
        """The value, or None."""
        if scope == "task":
            return await self._store.load(self._tenant, self._job.task_id, key)
        return await self._threads.load(self._tenant, self._job.context_id, key)

    async def save(self, scope: kit.Scope, key: str, value: JsonValue) -> None:
        """Keep the value.

        Raises:
            TaskStateTooLarge, StateTooLarge: the task or the conversation would hold more than it may.
        """
        if scope == "task":
            # One by one: each is held against what the others came to.
            async with self._saving:
                kept = await self._store.save(self._tenant, self._job.task_id, key, value, self._most.state_bytes)
            if not kept:
                raise TaskStateTooLarge(limit_bytes=self._most.state_bytes)
            return
        await self._job.store()  # the conversation is born with its first task
        kept = await self._threads.save(self._tenant, self._job.context_id, key, value, self._most.thread_bytes)
        if not kept:
            raise StateTooLarge(limit_bytes=self._most.thread_bytes)

    async def remove(self, scope: kit.Scope, key: str) -> None:
        """Forget the value."""
        if scope == "task":
            await self._store.remove(self._tenant, self._job.task_id, key)
        else:
            await self._threads.remove(self._tenant, self._job.context_id, key)

    async def update(self, text: str, percent: float | None) -> None:
        """Words on how far it is."""
        await self._job.report({"kind": "progress", "text": text, "percent": percent})

    async def log(self, text: str, level: kit.LogLevel) -> None:
        """A line on how it is done; by itself it makes no task of work that ends at once."""
        await self._job.note({"kind": "log", "text": text, "level": level})

    async def artifact(self, artifact: kit.Artifact, *, append: bool, last_chunk: bool) -> None:
        """A draft, or a further piece of one.

        Raises:
            ArtifactTooLarge: with it, the task would have made more than it may.
        """
        size = artifact.size_bytes + (self._sizes.get(artifact.name, 0) if append else 0)
        if size + sum(self._sizes.values()) - self._sizes.get(artifact.name, 0) > self._most.artifact_bytes:
            raise ArtifactTooLarge(limit_bytes=self._most.artifact_bytes)
        self._sizes[artifact.name] = size
        chunks = self._chunks.setdefault(artifact.name, [])
        if not append:
            chunks.clear()
        chunks.append(artifact)
        event = {"kind": "artifact", "artifact": artifact_json(artifact), "append": append, "last": last_chunk}
        await self._job.report(event, linger=True)

    async def activity(self, activity: kit.Activity, tools: tuple[str, ...]) -> None:
        """What the task is busy with, for its history; an answer that comes at once is not held up by it."""
        event: Json = {"kind": "activity", "activity": activity.value}
        await self._job.note(event | {"tools": list(tools)} if tools else event)

    @property
    def _tenant(self) -> UUID:
        return self._job.caller.tenant


def _outcome(turn: kit.Turn, drafts: dict[str, kit.Artifact], waited: Json | None) -> Outcome:
    match turn.result:
        case kit.Completed(message=message, artifacts=artifacts):
            made = drafts | {artifact.name: artifact for artifact in artifacts}
            return Outcome(
                State.SUCCEEDED,
                turn.skill_id,
                _parts(message),
                [artifact_json(one) for one in made.values()],
                shown=frozenset(name for name, draft in drafts.items() if made[name] == draft),
            )
        case kit.InputRequired(message=message, slot=slot):
            auth = isinstance(turn.result, kit.AuthRequired)
            kept: Json = slot.dump() | ({"auth": True} if auth else {})
            if slot.asks:
                kept["asking"] = _asking(slot, waited)
            return Outcome(State.INPUT_REQUIRED, turn.skill_id, _parts(message), slot=kept, auth=auth)
        case kit.Reply(message=message):
            return Outcome(State.SUCCEEDED, turn.skill_id, _parts(message), reply=True)
        case kit.Failed(error=error, code=code, details=details):
            shown: Json = {"code": code or "SKILL_FAILED", "message": error, "details": details}
            return Outcome(State.FAILED, turn.skill_id, [{"kind": "text", "text": error}], error=shown)
        case kit.Rejected(reason=reason):
            refusal: Json = {"code": "SKILL_REJECTED", "message": reason, "details": {}}
            return Outcome(
                State.REJECTED, turn.skill_id, [{"kind": "text", "text": reason}], error=refusal, refused=True
            )


def _too_large(limit_bytes: int, skill_id: str | None) -> kit.Turn:
    error = ArtifactTooLarge(limit_bytes=limit_bytes)
    return kit.Turn(kit.Failed(error.message, error.code, error.details), skill_id)


def _size(result: kit.OnRequestResult, drafts: dict[str, kit.Artifact]) -> int:
    """How much would be kept of it; found before it is written down, which takes as much again."""
    match result:
        case kit.Completed(message=message, artifacts=artifacts):
            made = drafts | {artifact.name: artifact for artifact in artifacts}
            return sum(one.size_bytes for one in made.values()) + (message.size_bytes if message is not None else 0)
        case kit.InputRequired(message=message, slot=slot):
            return message.size_bytes + len(orjson.dumps(slot.dump()))
        case kit.Reply(message=message):
            return message.size_bytes
        case kit.Failed(error=words) | kit.Rejected(reason=words):
            return len(words)


def _asking(slot: kit.SkillSlot, waited: Json | None) -> str:
    """What tells this question from all others of the task; what is left of one is still the same question."""
    before = waited or {}
    left = slot.answers and set(slot.asks) < set(before.get("asks", ()))
    return before["asking"] if left else new_text_id()[-12:]


def _data_artifact(name: str, data: Any) -> Json:
    return {"id": name, "name": name, "parts": [{"kind": "data", "data": data}]}


def _skill(tool: str) -> str:
    return tool.partition("_")[0]


def _parts(content: kit.Content | None) -> list[Json] | None:
    if content is None:
        return None
    parts = content.model_dump(mode="json", exclude_none=True)["parts"]
    # Nothing is a value too.
    return [{"data": None, **part} if part["kind"] == "data" else part for part in parts]


def artifact_json(artifact: kit.Artifact) -> Json:
    """As the task keeps it; its name is its id within the task."""
    made: Json = {"id": artifact.name, "name": artifact.name, "parts": _parts(artifact.content) or []}
    if artifact.description:
        made["description"] = artifact.description
    return made


def find_tool_call(message: Json) -> tuple[str, Any] | None:
    """The tool that a message names in a data part `{"tool": ..., "arguments": {...}}`, or None.

    Raises:
        InvalidInput: it names one in a wrong way.
    """
    for part in message["parts"]:
        if _names_tool(part):
            call = cast("Json", part["data"])
            if not isinstance(call["tool"], str):
                raise InvalidInput.of("tool", "must be the name of a tool")
            return call["tool"], call.get("arguments", {})
    return None


def _names_tool(part: Json) -> bool:
    return part.get("kind") == "data" and isinstance(part.get("data"), dict) and "tool" in part["data"]
