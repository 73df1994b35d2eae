"""What can be asked of tasks. The same tasks are seen by the protocols that carry tasks of their own."""

from dragoman.operations import Effect, Operation, Page, RateClass, Recorded
from dragoman.services.tasks import shapes as m

READ, WRITE = "read:tasks", "write:tasks"
_SKILL = "contracts"
_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
_ENVELOPE = {
    "envelope_version": "1",
    "actor": {"id": "you", "type": "human"},
    "action": "document.draft",
    "resource": {"type": "document", "id": "nda-acme"},
    "matter": {"id": "acme-2026"},
    "idempotency_key": "nda-acme-1",
    "request": {"correlation_id": "acme-onboarding"},
    "input": {
        "template": "mutual-nda",
        "fields": {
            "party_a": "Acme Ltd", "party_b": "Example Inc", "effective_date": "2026-12-01", "term_months": 24,
            "governing_law": "England and Wales",
        },
    },
}  # fmt: skip

SUBMIT = Operation(
    "task.submit", "Submit an action", m.SubmitTask, m.Submitted, WRITE, Effect.WRITE,
    recorded=Recorded.BATCH, part_of=_SKILL,
    description="Submits an action as an envelope. The same idempotency key of the same actor is the same task.",
    example={"envelope": _ENVELOPE},
)  # fmt: skip
STATUS = Operation(
    "task.status", "Show a task", m.TaskRef, m.TaskView, READ,
    rate_class=RateClass.POLL, part_of=_SKILL,
    description="Returns the state, history, attempts, result, and the policies and approvals that the task relies on.",
    example={"task_id": _ID},
)  # fmt: skip
LIST = Operation(
    "task.list", "List tasks", m.ListTasks, Page[m.TaskSummary], READ, rate_class=RateClass.POLL, part_of=_SKILL
)
EVENTS = Operation(
    "task.events", "Read the log of a task", m.ListEvents, m.TaskEvents, READ,
    rate_class=RateClass.POLL, part_of=_SKILL,
    example={"task_id": _ID},
)  # fmt: skip
RETRY = Operation(
    "task.retry", "Retry a failed task", m.RetryTask, m.TaskView, WRITE, Effect.WRITE,
    recorded=Recorded.STEP, part_of=_SKILL,
    description="Opens a new run of a failed task. Side effects that already happened are not repeated.",
    example={"task_id": _ID, "reason": "the provider is back"},
)  # fmt: skip
CANCEL = Operation(
    "task.cancel", "Cancel a task", m.CancelTask, m.TaskView, WRITE, Effect.DESTRUCTIVE,
    recorded=Recorded.STEP, part_of=_SKILL,
    example={"task_id": _ID},
)  # fmt: skip
PROVIDE_INPUT = Operation(
    "task.provide_input", "Answer a task that waits for input", m.ProvideInput, m.TaskView, WRITE, Effect.WRITE,
    recorded=Recorded.STEP, part_of=_SKILL, example={"task_id": _ID, "input": {"answer": "yes"}},
)  # fmt: skip
TRANSITION = Operation(
    "task.transition", "Move a task by hand", m.TransitionTask, m.TaskView, WRITE, Effect.WRITE,
    recorded=Recorded.STEP, part_of=_SKILL,
    description="For workers and operators. A transition that the lifecycle does not allow is rejected and logged.",
    example={"task_id": _ID, "to": "cancelled", "reason": "withdrawn by the client"},
)  # fmt: skip
RETRY_MANY = Operation(
    "task.retry_many", "Retry failed tasks by filter", m.ManyTasks, m.ManyDone, WRITE, Effect.WRITE,
    recorded=Recorded.STEP, long=True, part_of=_SKILL,
    example={"action": "signature.send", "error": "UPSTREAM_UNAVAILABLE"},
)  # fmt: skip
CANCEL_MANY = Operation(
    "task.cancel_many", "Cancel tasks by filter", m.ManyTasks, m.ManyDone, WRITE, Effect.DESTRUCTIVE,
    recorded=Recorded.STEP, long=True, part_of=_SKILL,
    example={"matter": "acme-2026"},
)  # fmt: skip
