"""Doing the work: an operation that the message names, or a turn of the agent that is served."""

from typing import Any
from uuid import UUID

import orjson

from dragoman import kit
from dragoman.context import Caller, Progress, progress_to, within_task
from dragoman.errors import InvalidInput
from dragoman.infra.ids import new_text_id
from dragoman.infra.telemetry import TaskMetrics
from dragoman.services.tasks import events
from dragoman.services.tasks.errors import ArtifactTooLarge, SecretsGone
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Json, ToolCall, names_tool
from dragoman.services.tasks.store import TaskStore, ThreadStore
from dragoman.services.tasks.turns.execution import Job, Outcome, ToolOutput, Tools
from dragoman.services.tasks.turns.host import Sizes, TurnHost, artifact_json, parts_json


class TaskExecutor:
    """Calls a named operation directly; everything else is a turn of the agent."""

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
        """Do the work and return how it ended.

        Raises:
            InvalidInput: the message names a tool in a wrong way.
        """
        call, ref = job.tool_call, str(job.task_id)
        if call is not None and call.name is None:
            raise InvalidInput.of("tool", "must be the name of a tool")
        with within_task(ref):
            if call is not None and (name := self._find_direct(call.name)) is not None:
                self._metrics.routed(kit.How.TOOL)
                # Else the task is the key: whoever runs it again after a crash finds that it was done.
                return await self._call(job, name, call.arguments, key=job.message.get("key") or f"task:{ref}")
            return await self._turn(job, self._agent)

    def is_direct(self, call: ToolCall | None) -> bool:
        """Check whether the message calls an operation directly, without an agent."""
        return call is not None and self._find_direct(call.name) is not None

    def is_whole(self, call: ToolCall | None) -> bool:
        """Check whether the message calls an operation directly that happens as a whole or not at all."""
        return call is not None and call.name is not None and self._tools.is_whole(call.name) and self.is_direct(call)

    def reads(self, call: ToolCall) -> bool:
        """Check whether the operation changes nothing."""
        return call.name is not None and self._tools.reads(call.name)

    async def call(self, caller: Caller, call: ToolCall, task_id: UUID, progress: Progress) -> Outcome:
        """Call an operation that is done as a whole, for a task that is not stored yet."""
        name, ref = call.name or "", str(task_id)
        self._metrics.routed(kit.How.TOOL)
        with within_task(ref), progress_to(progress):
            # The task is the key of a write, as in `execute`: should it be stored meanwhile, and run again elsewhere.
            output = await self._tools.run(caller, name, call.arguments, key=f"task:{ref}", admitted=call.admitted)
        return self._completed(name, output)

    def skill_of(self, call: ToolCall | None, skill: str | None) -> str | None:
        """Return the skill of the tool that the message names, else that of the task."""
        name = call.name if call is not None else None
        return _skill(name) if name is not None and self._tools.has(name) else skill

    def keepable(self, message: Json, call: ToolCall | None) -> Json:
        """Return the message without the secrets of the operations that it names."""
        if call is None:
            return message
        # Only the first call is run, but another in the same message may hold a secret too.
        parts = [self._keepable_part(part) for part in message["parts"]]
        return message if parts == message["parts"] else message | {"parts": parts, "withheld": True}

    def _find_direct(self, name: str | None) -> str | None:
        """Return the name if it is that of an operation that is called directly."""
        return name if name is not None and self._tools.has(name) and name not in self._asking else None

    def _keepable_part(self, part: Json) -> Json:
        if not names_tool(part) or not isinstance(part["data"]["tool"], str):
            return part
        name, arguments = self._find_direct(part["data"]["tool"]), part["data"].get("arguments")
        if name is None:
            return part
        without_secrets = self._tools.keepable(name, arguments)
        if without_secrets == arguments:
            return part
        return part | {"data": part["data"] | {"arguments": without_secrets}}

    async def _call(self, job: Job, name: str, arguments: Any, *, key: str) -> Outcome:
        async def progress(text: str, percent: float | None) -> None:
            await job.report(events.ProgressEvent(text, percent))

        with progress_to(progress):
            output = await self._run_tool(job, name, arguments, key=key)
        return self._completed(name, output)

    def _completed(self, name: str, output: ToolOutput) -> Outcome:
        if len(orjson.dumps(output.shown)) > self._sizes.artifact_bytes:
            return _outcome(_too_large(self._sizes.artifact_bytes, _skill(name)), {}, None)
        kept, shown = ([_data_artifact(name, data)] for data in (output.kept, output.shown))
        return Outcome(State.SUCCEEDED, skill=_skill(name), artifacts=kept, once=shown if shown != kept else [])

    async def _run_tool(self, job: Job, name: str, arguments: Any, *, key: str) -> ToolOutput:
        if not job.message.get("withheld"):
            admitted = job.tool_call.admitted if job.tool_call is not None else None
            return await self._tools.run(job.caller, name, arguments, key=key, admitted=admitted)
        # The process that had the secrets has died.
        output = await self._tools.find_done(job.caller, name, arguments, key=key)
        if output is None:
            raise SecretsGone(name)
        return output

    async def _turn(self, job: Job, agent: kit.Agent) -> Outcome:
        content = kit.Content.model_validate({"parts": job.message["parts"]})
        ports = TurnHost(job, self._store, self._threads, self._sizes)
        if job.resumed:
            await ports.recall()
        ctx = kit.Context(
            str(job.task_id),
            job.thread.id,
            host=kit.Host(
                state=ports,
                progress=ports,
                effects=ports,
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
        if isinstance(turn.result, kit.Reply):
            await ports.forget()
        drafts = ports.drafts
        if _size(turn.result, drafts) > self._sizes.artifact_bytes:
            turn = _too_large(self._sizes.artifact_bytes, turn.skill_id)
        return _outcome(turn, drafts, job.slot)

    async def _thread(self, job: Job) -> kit.Thread:
        if job.fresh:
            return kit.Thread()
        messages = await self._threads.messages(job.caller.tenant, job.thread)
        if messages and messages[-1] == job.message:  # by its content: clients use one message id for several messages
            messages = messages[:-1]
        thread_events = [
            (kit.Event.user if message["role"] == "user" else kit.Event.assistant)(
                kit.Content.model_validate({"parts": message["parts"]})
            )
            for message in messages
        ]
        return kit.Thread().add_events(thread_events)


def _outcome(turn: kit.Turn, drafts: dict[str, kit.Artifact], earlier_slot: Json | None) -> Outcome:
    match turn.result:
        case kit.Completed(message=message, artifacts=artifacts):
            by_name = drafts | {artifact.name: artifact for artifact in artifacts}
            return Outcome(
                State.SUCCEEDED,
                turn.skill_id,
                parts_json(message),
                [artifact_json(artifact) for artifact in by_name.values()],
                shown=frozenset(name for name, draft in drafts.items() if by_name[name] == draft),
            )
        case kit.InputRequired(message=message, slot=slot):
            auth = isinstance(turn.result, kit.AuthRequired)
            slot_json: Json = slot.dump() | ({"auth": True} if auth else {})
            if slot.asks:
                slot_json["asking"] = _question_id(slot, earlier_slot)
            return Outcome(State.INPUT_REQUIRED, turn.skill_id, parts_json(message), slot=slot_json, auth=auth)
        case kit.Reply(message=message):
            return Outcome(State.SUCCEEDED, turn.skill_id, parts_json(message), reply=True)
        case kit.Failed(error=error, code=code, details=details):
            error_json: Json = {"code": code or "SKILL_FAILED", "message": error, "details": details}
            return Outcome(State.FAILED, turn.skill_id, [{"kind": "text", "text": error}], error=error_json)
        case kit.Rejected(reason=reason):
            refusal: Json = {"code": "SKILL_REJECTED", "message": reason, "details": {}}
            return Outcome(
                State.REJECTED, turn.skill_id, [{"kind": "text", "text": reason}], error=refusal, refused=True
            )


def _too_large(limit_bytes: int, skill_id: str | None) -> kit.Turn:
    error = ArtifactTooLarge(limit_bytes=limit_bytes)
    return kit.Turn(kit.Failed(error.message, error.code, error.details), skill_id)


def _size(result: kit.OnRequestResult, drafts: dict[str, kit.Artifact]) -> int:
    """Return the size of what would be stored, without encoding it."""
    match result:
        case kit.Completed(message=message, artifacts=artifacts):
            by_name = drafts | {artifact.name: artifact for artifact in artifacts}
            artifact_bytes = sum(artifact.size_bytes for artifact in by_name.values())
            return artifact_bytes + (message.size_bytes if message is not None else 0)
        case kit.InputRequired(message=message, slot=slot):
            return message.size_bytes + len(orjson.dumps(slot.dump()))
        case kit.Reply(message=message):
            return message.size_bytes
        case kit.Failed(error=text) | kit.Rejected(reason=text):
            return len(text)


def _question_id(slot: kit.SkillSlot, earlier_slot: Json | None) -> str:
    """Return the id of a question; the rest of a question that was answered in part has the same id."""
    earlier = earlier_slot or {}
    is_rest = slot.answers and set(slot.asks) < set(earlier.get("asks", ()))
    return earlier["asking"] if is_rest else new_text_id()[-12:]


def _data_artifact(name: str, data: Any) -> Json:
    return {"id": name, "name": name, "parts": [{"kind": "data", "data": data}]}


def _skill(tool: str) -> str:
    return tool.partition("_")[0]
