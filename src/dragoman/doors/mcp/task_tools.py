"""Tools whose work is a task of the core, whoever waits for it and however: skills, and operations that take long."""

from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams
from pydantic import Field

from dragoman.arguments import check_values, read_arguments
from dragoman.context import Caller
from dragoman.doors.mcp.calls import KEY_META, read_key
from dragoman.doors.mcp.catalogue import AgentTool, AnyTool, OperationTool, SkillTool
from dragoman.doors.mcp.extension import declares_tasks, takes_questions
from dragoman.doors.mcp.methods import Context, listener, require_caller
from dragoman.doors.mcp.offer import Offer
from dragoman.doors.mcp.tasks_wire import ANSWER, answer_parts, input_requests, task_json, task_result
from dragoman.doors.mcp.wire import INVALID_PARAMS, Json, failed
from dragoman.errors import DragomanError, InvalidInput
from dragoman.infra.ids import new_text_id
from dragoman.operations import Input
from dragoman.services.tasks.errors import TaskBusy, TaskClosed
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Incoming, Task
from dragoman.services.tasks.operations import SEND_MESSAGE

_BEAT_S: Final = 20.0


class SkillCall(Input):
    """What a skill takes as a tool."""

    text: str | None = Field(None, min_length=1)
    data: dict[str, Any] | None = None
    task_id: str | None = Field(None, min_length=1, max_length=200)
    idempotency_key: str | None = None

    @property
    def parts(self) -> list[Json]:
        """As parts of a message.

        Raises:
            InvalidInput: nothing is said.
        """
        parts: list[Json] = [{"kind": "text", "text": self.text}] if self.text is not None else []
        parts += [{"kind": "data", "data": self.data}] if self.data is not None else []
        if not parts:
            raise InvalidInput.of("text", "say something, in `text` or in `data`")
        return parts


class TaskTools:
    """Calls them for clients of every kind.

    One that declares the tasks extension gets the task at once, unless the tool only reads. Any other waits; when the
    task asks something, it gets the question in the way that it can take: to be asked and to call again, or as a result
    that says so.
    """

    def __init__(self, offer: Offer) -> None:
        self._offer = offer

    async def call(self, ctx: Context, tool: AnyTool, params: CallToolRequestParams) -> Json:
        """Begin a task, or go on with one."""
        caller = require_caller()
        try:
            if not isinstance(tool, OperationTool):  # whether an operation may be run is found out when it is
                await self._offer.gate.enter(SEND_MESSAGE, caller)
            incoming = self._answer(params) or _begin(tool, dict(params.arguments or {}), dict(ctx.meta or {}))
            as_task = declares_tasks(ctx) and not _only_reads(tool)
            task = await self._send(ctx, caller, incoming, as_task=as_task)
        except (TaskBusy, TaskClosed) as error:
            if params.request_state is not None:
                raise MCPError(INVALID_PARAMS, "this requestState was used", {"reason": "used_request_state"}) from None
            return failed(error)
        except DragomanError as error:
            return failed(error)
        if as_task:
            return {"resultType": "task"} | task_json(task)
        if task.state is State.INPUT_REQUIRED and takes_questions(ctx):
            state = f"{task.id} {task.seq}"
            return {"resultType": "input_required", "inputRequests": input_requests(task), "requestState": state}
        return task_result(task)

    def _answer(self, params: CallToolRequestParams) -> Incoming | None:
        """The answer to what a task asked, when this call repeats one that was answered with a question."""
        if params.request_state is None:
            return None
        task_id, _, seq = params.request_state.partition(" ")
        answers: dict[str, Any] = dict(params.input_responses or {})
        answer = answers.get(f"{ANSWER}-{seq}")
        if answer is None or getattr(answer, "action", None) != "accept":
            raise InvalidInput.of("inputResponses", "must hold an accepted answer to what was asked")
        return Incoming(
            message={
                "id": new_text_id(),
                "role": "user",
                "parts": answer_parts(getattr(answer, "content", None) or {}),
            },
            task_ref=task_id,
            seen=int(seq),
        )

    async def _send(self, ctx: Context, caller: Caller, incoming: Incoming, *, as_task: bool) -> Task:
        tasks, tell = self._offer.tasks, listener(ctx)
        if as_task:
            return await tasks.send(caller, replace(incoming, wait_s=0))
        if tell is None:
            return await tasks.send(caller, incoming)
        task = await tasks.send(caller, replace(incoming, wait_s=0))
        async with aclosing(tasks.follow(caller, task, 0, beat_s=_BEAT_S)) as happenings:
            async for happening in happenings:
                if happening is not None and happening.body["kind"] == "progress":
                    await tell(happening.body["text"], happening.body.get("percent"))
        return await tasks.get(caller, str(task.id))


def _only_reads(tool: AnyTool) -> bool:
    """Whether its result is all that anybody wants of it: then it is given at once."""
    return isinstance(tool, AgentTool) and tool.tool.annotations.read_only


def _begin(tool: AnyTool, arguments: Json, meta: Json) -> Incoming:
    """The message that asks for the work of a tool."""
    if isinstance(tool, SkillTool):
        given = read_arguments(SkillCall, arguments)
        key = given.idempotency_key or meta.get(KEY_META)
        message = {"id": new_text_id(), "role": "user", "parts": given.parts}
        return Incoming(message=message, task_ref=given.task_id, skill=tool.skill.id, idempotency_key=key)
    key = meta.get(KEY_META)
    if isinstance(tool, OperationTool):
        key = read_key(tool, arguments, meta)
        read_arguments(tool.operation.input, arguments)
    else:
        check_values(arguments)
    named = {"tool": tool.name, "arguments": arguments}
    message = {"id": new_text_id(), "role": "user", "parts": [{"kind": "data", "data": named}]}
    return Incoming(message=message, idempotency_key=key)
