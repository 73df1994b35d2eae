"""What a client answers to the questions of a task, handed to the task."""

from collections.abc import Mapping
from contextlib import suppress

from dragoman.context import Caller
from dragoman.doors.mcp.offer import Offer
from dragoman.doors.mcp.questions import Asking
from dragoman.doors.mcp.tasks_wire import spoken
from dragoman.doors.mcp.wire import Json
from dragoman.errors import Conflict, NotFound
from dragoman.infra.ids import new_text_id
from dragoman.services.tasks.errors import NotCancelable, TaskBusy, TaskClosed
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Incoming, Task, find_tool_call
from dragoman.services.tasks.passages import SEND_MESSAGE


def open_questions(task: Task) -> Asking:
    """What the task asks now, under keys that never come again; nothing where it does not ask."""
    if task.state is not State.INPUT_REQUIRED:
        return Asking({})
    return Asking.of(task, spoken(task), lasting=True)


async def find_asking(offer: Offer, caller: Caller, task_id: str) -> Task:
    """Return a task that is to be answered; that there is none is on record as a refused answer.

    Raises:
        NotFound: it does not exist, or belongs to another tenant.
    """
    try:
        return await offer.tasks.get(caller, task_id)
    except NotFound as error:
        await offer.gate.record_refusal(SEND_MESSAGE, caller, task_id, error)
        raise


async def refuse_late(offer: Offer, caller: Caller, task: Task) -> None:
    """Keep on record that an answer came to a question that the task does not ask, or does not ask any more."""
    error = Conflict("this question was answered before, or never asked", reason="QUESTION_CLOSED")
    if task.terminal:
        error = TaskClosed(task.state.value)
    elif task.state is not State.INPUT_REQUIRED:
        error = TaskBusy(task.state.value)
    await offer.gate.record_refusal(SEND_MESSAGE, caller, str(task.id), error)


async def answer(offer: Offer, caller: Caller, task: Task, responses: Mapping[str, Json], *, wait_s: float = 0) -> bool:
    """Whether the task goes on with these, having waited so long for it; a question that is declined cancels it.

    What does not fit leaves its question open. Where somebody else was first, the task goes on from there, and the
    task service or the gate has the refusal on record.
    """
    asking = open_questions(task)
    parts = asking.read(responses)
    with suppress(TaskBusy, TaskClosed, NotCancelable):
        if asking.declined(responses):
            await offer.cancel(caller, str(task.id))
        elif parts is not None:
            message = {"id": new_text_id(), "role": "user", "parts": parts}
            await offer.tasks.send(
                caller,
                Incoming(
                    message=message,
                    task_ref=str(task.id),
                    seen=task.seq,
                    wait_s=wait_s,
                    tool_call=find_tool_call(message),
                ),
            )
        else:
            return False
    return True
