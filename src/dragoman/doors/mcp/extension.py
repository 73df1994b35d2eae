"""The tasks extension: any task of the caller's tenant, whichever door began it, by its id."""

from contextlib import suppress
from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY, RequestParams
from pydantic import Field

from dragoman.doors.mcp.methods import Context, add, require_caller
from dragoman.doors.mcp.offer import Offer
from dragoman.doors.mcp.tasks_wire import answer_parts, detailed_task_json, input_key
from dragoman.doors.mcp.wire import Json
from dragoman.infra.ids import new_text_id
from dragoman.services.tasks.errors import NotCancelable, TaskBusy, TaskClosed
from dragoman.services.tasks.models import Incoming
from dragoman.services.tasks.operations import CANCEL_TASK, GET_TASK, SEND_MESSAGE

TASKS: Final = "io.modelcontextprotocol/tasks"


class TaskParams(RequestParams):
    """Which task."""

    task_id: str = Field(alias="taskId", min_length=1, max_length=200)


class UpdateParams(TaskParams):
    """Answers to what a task asked."""

    input_responses: dict[str, dict[str, Any]] = Field(alias="inputResponses")


def declares_tasks(ctx: Context) -> bool:
    """Whether the client of this request understands a task in place of a result."""
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and TASKS in (capabilities.extensions or {})


def takes_questions(ctx: Context) -> bool:
    """Whether the client of this request can put a question to its user."""
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


class TasksExtension:
    """`tasks/get`, `tasks/update` and `tasks/cancel`."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer

    def join(self, server: "Server[Any]") -> None:
        """Be offered by the server."""
        server.extensions[TASKS] = {}
        add(server, "tasks/get", TaskParams, self.get)
        add(server, "tasks/update", UpdateParams, self.update)
        add(server, "tasks/cancel", TaskParams, self.cancel)

    async def get(self, ctx: Context, params: TaskParams) -> Json:
        """How a task stands, with its result or its question."""
        _check(ctx, params)
        caller = require_caller()
        await self._offer.gate.enter(GET_TASK, caller)
        return detailed_task_json(await self._offer.tasks.get(caller, params.task_id))

    async def update(self, ctx: Context, params: UpdateParams) -> Json:
        """Answer what a task asked; an answer to anything else, or to what was answered, is left alone."""
        _check(ctx, params)
        caller = require_caller()
        await self._offer.gate.enter(SEND_MESSAGE, caller)
        task = await self._offer.tasks.get(caller, params.task_id)
        answer = params.input_responses.get(input_key(task))
        if answer is None:
            return {}
        # Where somebody else was first, the task goes on from there.
        with suppress(TaskBusy, TaskClosed, NotCancelable):
            if answer.get("action") == "accept":
                message = {"id": new_text_id(), "role": "user", "parts": answer_parts(answer.get("content") or {})}
                await self._offer.tasks.send(
                    caller, Incoming(message=message, task_ref=str(task.id), seen=task.seq, wait_s=0)
                )
            elif answer.get("action") == "decline":
                await self._offer.tasks.cancel(caller, str(task.id))
        return {}

    async def cancel(self, ctx: Context, params: TaskParams) -> Json:
        """End a task; one that has ended stays as it is."""
        _check(ctx, params)
        caller = require_caller()
        await self._offer.gate.enter(CANCEL_TASK, caller)
        with suppress(NotCancelable):
            await self._offer.tasks.cancel(caller, params.task_id)
        return {}


def _check(ctx: Context, params: TaskParams) -> None:
    """The client must know the extension, and proxies must have been told the same task as we."""
    if not declares_tasks(ctx):
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            f"the client must declare the extension {TASKS}",
            {"requiredCapabilities": {"extensions": {TASKS: {}}}},
        )
    headers = getattr(ctx.request, "headers", None)
    if headers is not None and headers.get("mcp-name") != params.task_id:
        raise MCPError(HEADER_MISMATCH, "the header Mcp-Name must be the id of the task")
