"""The tasks extension: any task of the caller's tenant, whichever door began it, by its id."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY, RequestParams
from pydantic import Field

from dragoman import kit
from dragoman.doors.mcp.answers import answer, find_asking, open_questions, refuse_late
from dragoman.doors.mcp.methods import Context, add, find_admitted, require_caller
from dragoman.doors.mcp.offer import Offer
from dragoman.doors.mcp.questions import CAPABILITIES, TASKS
from dragoman.doors.mcp.tasks_wire import detailed_task_json
from dragoman.doors.mcp.wire import Json
from dragoman.services.tasks.errors import NotCancelable
from dragoman.services.tasks.passages import CANCEL_TASK, GET_TASK, SEND_MESSAGE

_LONGEST_NOTE_S: Final = 5.0


class TaskParams(RequestParams):
    """Which task."""

    task_id: str = Field(alias="taskId", min_length=1, max_length=200)


class UpdateParams(TaskParams):
    """Answers to what a task asked."""

    input_responses: dict[str, dict[str, Any]] = Field(alias="inputResponses")


def abilities(ctx: Context) -> frozenset[kit.Need]:
    """What the client of this request can do beyond calling tools: follow a task, answer questions of these kinds."""
    declared = ctx.session.client_capabilities
    if declared is None:
        return frozenset()
    found: dict[kit.Need, bool] = {
        "task": TASKS in (declared.extensions or {}),
        "form": declared.elicitation is not None,
        "generation": declared.sampling is not None,
        "folders": declared.roots is not None,
    }
    return frozenset(need for need, able in found.items() if able)


def require(ctx: Context, needs: Iterable[kit.Need]) -> None:
    """Refuse a client that cannot do what is needed of it.

    Raises:
        MCPError: it has not declared something.
    """
    missing = sorted(set(needs) - abilities(ctx))
    if missing:
        required: Json = {}
        for need in missing:
            required |= CAPABILITIES[need]
        told = {"requiredCapabilities": required}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, f"the client must declare {', '.join(required)}", told)


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
        await self._offer.gate.guard(GET_TASK, caller, admitted=find_admitted(ctx))
        return detailed_task_json(await self._offer.tasks.get(caller, params.task_id))

    async def update(self, ctx: Context, params: UpdateParams) -> Json:
        """Answer what a task asked; an answer to anything else, or to what was answered, is recorded as refused."""
        _check(ctx, params)
        caller = require_caller()
        await self._offer.gate.guard(SEND_MESSAGE, caller, admitted=find_admitted(ctx))
        task = await find_asking(self._offer, caller, params.task_id)
        asked = open_questions(task).questions
        if not set(params.input_responses) <= set(asked):
            await refuse_late(self._offer, caller, task)
        # What answers a part of it is known when this returns: the client may ask at once what is left.
        wait_s = 0 if set(asked) <= set(params.input_responses) else _LONGEST_NOTE_S
        await answer(self._offer, caller, task, params.input_responses, wait_s=wait_s)
        return {}

    async def cancel(self, ctx: Context, params: TaskParams) -> Json:
        """End a task; one that has ended stays as it is."""
        _check(ctx, params)
        caller = require_caller()
        await self._offer.gate.guard(CANCEL_TASK, caller, admitted=find_admitted(ctx))
        with suppress(NotCancelable):
            await self._offer.cancel(caller, params.task_id)
        return {}


def _check(ctx: Context, params: TaskParams) -> None:
    """The client must know the extension, and proxies must have been told the same task as we."""
    require(ctx, ["task"])
    headers = getattr(ctx.request, "headers", None)
    if headers is not None and headers.get("mcp-name") != params.task_id:
        raise MCPError(HEADER_MISMATCH, "the header Mcp-Name must be the id of the task")
