"""Tools whose work is a task of the core, whoever waits for it and however: skills, and operations that take long."""

from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams
from pydantic import Field

from dragoman.arguments import check_values, read_arguments
from dragoman.context import Caller
from dragoman.doors.mcp.answers import find_asking, refuse_late
from dragoman.doors.mcp.calls import one_key, read_key
from dragoman.doors.mcp.catalogue import KEY_ARGUMENT, AgentTool, AnyTool, OperationTool, SkillTool
from dragoman.doors.mcp.exchange import find_exchange
from dragoman.doors.mcp.extension import abilities, require
from dragoman.doors.mcp.methods import Context, find_admitted, require_caller
from dragoman.doors.mcp.news import Tell, find_news
from dragoman.doors.mcp.offer import Offer
from dragoman.doors.mcp.pushed import Pushed
from dragoman.doors.mcp.questions import Asking
from dragoman.doors.mcp.tasks_wire import spoken, task_json, task_result
from dragoman.doors.mcp.waiting import ServerStops, Waits, failed_call
from dragoman.doors.mcp.wire import INVALID_PARAMS, Json
from dragoman.errors import DragomanError, InvalidInput, NotFound
from dragoman.infra.ids import new_text_id
from dragoman.infra.limits import Admitted
from dragoman.operations import Input
from dragoman.services.tasks.errors import TaskBusy, TaskClosed
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Incoming, Task, ToolCall, find_tool_call
from dragoman.services.tasks.passages import SEND_MESSAGE

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
    task asks something, it gets the question in the way that it can take: as a request while it waits, to be asked and
    to call again, or as a result that says so.
    """

    def __init__(self, offer: Offer, pushed: Pushed, waits: Waits) -> None:
        self._offer = offer
        self._pushed = pushed
        self._waits = waits

    async def call(self, ctx: Context, tool: AnyTool, params: CallToolRequestParams) -> Json:
        """Begin a task, or go on with one."""
        caller, able = require_caller(), abilities(ctx)
        if isinstance(tool, AgentTool):
            require(ctx, tool.tool.needs)
        responses = _responses(params)
        as_task = "task" in able and not _only_reads(tool) and not (_asks_first(tool) and params.request_state is None)
        try:
            if not isinstance(tool, OperationTool):  # whether an operation may be run is found out when it is
                await self._offer.gate.guard(SEND_MESSAGE, caller, admitted=find_admitted(ctx))
            if params.request_state is not None:
                task = await self._go_on(ctx, caller, params.request_state, responses, as_task=as_task)
            else:
                incoming = _begin(tool, dict(params.arguments or {}), dict(ctx.meta or {}), find_admitted(ctx))
                task = await self._send(ctx, caller, incoming, as_task=as_task)
                # A client may answer before it is asked, if it knows what is asked.
                while not as_task and (parts := _in_advance(task, responses)) is not None:
                    task = await self._send(ctx, caller, _reply(task, parts), as_task=False)
            if (exchange := find_exchange(ctx)) is not None:
                while await self._pushed.ask(ctx, exchange, caller, task):
                    task = await self._followed(caller, task, task.seq, find_news(ctx))
                return task_result(task)
        except DragomanError as error:
            return failed_call(error)
        if as_task:
            return {"resultType": "task"} | task_json(task)
        asked = _asking(task).requests(able) if task.state is State.INPUT_REQUIRED else {}
        if asked:
            state = f"{task.id} {task.seq}"
            return {"resultType": "input_required", "inputRequests": asked, "requestState": state}
        return task_result(task)

    async def _go_on(
        self, ctx: Context, caller: Caller, request_state: str, responses: dict[str, Json], *, as_task: bool
    ) -> Task:
        """The task after the answers; as it was where they answer nothing, so that it is asked again.

        Raises:
            MCPError: what was asked then has been answered.
        """
        task_id, _, seq = request_state.partition(" ")
        task = await find_asking(self._offer, caller, task_id)
        if task.seq != int(seq) or task.state is not State.INPUT_REQUIRED:
            await refuse_late(self._offer, caller, task)
            raise _used()
        if _asking(task).declined(responses):
            await self._offer.cancel(caller, task_id)
            return await self._offer.tasks.get(caller, task_id)
        parts = _asking(task).read(responses)
        if parts is None:
            return task
        try:
            return await self._send(ctx, caller, _reply(task, parts), as_task=as_task)
        except (TaskBusy, TaskClosed):
            raise _used() from None

    async def _send(self, ctx: Context, caller: Caller, incoming: Incoming, *, as_task: bool) -> Task:
        tasks, tell = self._offer.tasks, find_news(ctx)
        if as_task:
            return await tasks.send(caller, replace(incoming, wait_s=0))
        if tell is not None:
            task = await tasks.send(caller, replace(incoming, wait_s=0))
            return await self._followed(caller, task, incoming.seen or 0, tell)
        begun: list[Task] = []

        async def note(task: Task, _: int) -> None:
            begun.append(task)

        try:
            async with self._waits.wait():
                return await tasks.send(caller, replace(incoming, attach=note))
        except ServerStops:
            return await self._rested(caller, begun)

    async def _followed(self, caller: Caller, task: Task, after: int, tell: Tell | None) -> Task:
        """The task when it rests; what happened to it since event `after` is told on the way."""
        follow = self._offer.tasks.follow(caller, task, after, keepalive_s=_BEAT_S)
        try:
            async with self._waits.wait(), aclosing(follow) as happenings:
                async for happening in happenings:
                    if happening is not None and tell is not None:
                        await tell(happening.event)
        except ServerStops:
            return await self._rested(caller, [task])
        return await self._offer.tasks.get(caller, str(task.id))

    async def _rested(self, caller: Caller, begun: list[Task]) -> Task:
        """Return the task of a call whose wait has ended because the server stops.

        Raises:
            ServerStops: it does not rest yet, or was not stored.
        """
        task = None
        with suppress(NotFound):
            task = await self._offer.tasks.get(caller, str(begun[-1].id)) if begun else None
        if task is None or not task.resting:
            raise ServerStops(task)
        return task


def _used() -> MCPError:
    return MCPError(INVALID_PARAMS, "this requestState was used", {"reason": "used_request_state"})


def _asking(task: Task) -> Asking:
    return Asking.of(task, spoken(task), lasting=False)


def _in_advance(task: Task, responses: dict[str, Json]) -> list[Json] | None:
    """Answers to what the task asks that came with the call; each is used once."""
    if task.state is not State.INPUT_REQUIRED:
        return None
    asking = _asking(task)
    parts = asking.read(responses)
    for key in asking.questions:
        responses.pop(key, None)
    return parts


def _reply(task: Task, parts: list[Json]) -> Incoming:
    message = {"id": new_text_id(), "role": "user", "parts": parts}
    return Incoming(message=message, task_ref=str(task.id), seen=task.seq, tool_call=find_tool_call(message))


def _responses(params: CallToolRequestParams) -> dict[str, Json]:
    given = params.input_responses or {}
    return {key: one.model_dump(mode="json", by_alias=True, exclude_none=True) for key, one in given.items()}


def _asks_first(tool: AnyTool) -> bool:
    """Whether its client is asked before there is work to follow."""
    return isinstance(tool, AgentTool) and bool(tool.tool.needs - {"task"})


def _only_reads(tool: AnyTool) -> bool:
    """Whether its result is all that anybody wants of it: then it is given at once."""
    return isinstance(tool, AgentTool) and tool.tool.annotations.read_only


def _begin(tool: AnyTool, arguments: Json, meta: Json, admitted: Admitted | None) -> Incoming:
    """The message that asks for the work of a tool."""
    if isinstance(tool, SkillTool):
        given = read_arguments(SkillCall, arguments)
        named = {} if given.idempotency_key is None else {KEY_ARGUMENT: given.idempotency_key}
        message = {"id": new_text_id(), "role": "user", "parts": given.parts}
        return Incoming(
            message=message,
            task_ref=given.task_id,
            skill=tool.skill.id,
            idempotency_key=one_key(named, meta),
            tool_call=find_tool_call(message),
        )
    if isinstance(tool, OperationTool):
        key = read_key(tool, arguments, meta)
        # Said before there is a task; the gate reads them when the task is run, which may be in another process.
        read_arguments(tool.operation.input, arguments)
    else:
        key = one_key({}, meta)
        check_values(arguments)
    call = {"tool": tool.name, "arguments": arguments}
    message = {"id": new_text_id(), "role": "user", "parts": [{"kind": "data", "data": call}]}
    return Incoming(message=message, idempotency_key=key, tool_call=ToolCall(tool.name, arguments, admitted=admitted))
