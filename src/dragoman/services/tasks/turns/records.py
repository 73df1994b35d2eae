"""What the audit trail says of conversations: messages and answers by their hashes, who sent them, what came of it."""

from collections.abc import Sequence

from dragoman.context import Caller
from dragoman.services.audit.models import Detail, Outcome
from dragoman.services.audit.rows import hashed, stated
from dragoman.services.audit.store import Line
from dragoman.services.audit.trail import AuditTrail, Entry
from dragoman.services.tasks.engine.store_rows import turn_columns
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Json, Task, ToolCall
from dragoman.services.tasks.passages import SEND_MESSAGE

_ANSWER = "message.answer"
# The sender names the tool: it may be of any length.
_LONGEST = 100


def begun_record(trail: AuditTrail, caller: Caller, task: Task, call: ToolCall | None) -> Line:
    """Return the record of the message that began a task, as the task is stored: with the answer, if that is known."""
    details: dict[str, Detail] = {"context": task.context_id, "message": hashed(task.history[0]), "state": task.state}
    if call is not None and call.name is not None:
        details["tool"] = call.name[:_LONGEST]
    if len(task.history) > 1:
        details["answer"] = hashed(task.history[-1])
    columns = turn_columns(task.state, task.history, caller=task.caller, artifacts=task.artifacts)
    rows = {f"tasks/{task.id}": {**columns, "owner": stated(task.owner)}}
    code = task.error["code"] if task.error is not None else None
    entry = Entry(SEND_MESSAGE.name, Outcome.DONE, resource=str(task.id), code=code, details=details, rows=rows)
    return trail.write(caller, entry)


def continued_record(trail: AuditTrail, caller: Caller, task: Task, message: Json, to: State) -> Line:
    """Return the record of a message to a task that asked."""
    details: dict[str, Detail] = {"owner": task.owner, "context": task.context_id, "message": hashed(message)}
    rows = {f"tasks/{task.id}": turn_columns(to, [*task.history, message])}
    entry = Entry(SEND_MESSAGE.name, Outcome.DONE, resource=str(task.id), details=details, rows=rows)
    return trail.write(caller, entry)


def answered_record(  # noqa: PLR0913 - what a turn has come to, each part by its name
    trail: AuditTrail,
    caller: Caller,
    task: Task,
    to: State,
    *,
    attempt: int,
    messages: Sequence[Json],
    artifacts: Sequence[Json] | None,
    error: Json | None,
    refused: bool,
) -> Line:
    """Return the record of what a turn that was stored has come to; `refused` if its caller was let in no more."""
    details: dict[str, Detail] = {"owner": task.owner, "attempt": attempt, "state": to}
    if messages:
        details["answer"] = hashed(messages[-1])
    rows = {f"tasks/{task.id}": turn_columns(to, [*task.history, *messages], artifacts=artifacts)}
    entry = Entry(
        "task.fail" if refused else _ANSWER,
        Outcome.REFUSED if refused else Outcome.DONE,
        resource=str(task.id),
        code=error["code"] if error is not None else None,
        reason=error["message"][:500] if error is not None else None,
        details=details,
        rows=rows,
    )
    return trail.write(caller, entry)
