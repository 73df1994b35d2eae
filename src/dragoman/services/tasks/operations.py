"""What can be done with tasks through the protocols that carry them. The gate is asked about these by name."""

from dragoman.operations import Effect, Input, Operation, Output, RateClass

READ, WRITE = "read:tasks", "write:tasks"


class _Carried(Input):
    """The protocol's own message is the input."""


class _Shown(Output):
    """The protocol's own view of a task is the output."""


SEND_MESSAGE = Operation("message.send", "Send a message to the agent", _Carried, _Shown, WRITE, Effect.WRITE)
GET_TASK = Operation("task.get", "Show a task", _Carried, _Shown, READ, rate_class=RateClass.POLL)
LIST_TASKS = Operation("task.page", "List tasks", _Carried, _Shown, READ, rate_class=RateClass.POLL)
FOLLOW_TASK = Operation("task.follow", "Follow a task", _Carried, _Shown, READ, rate_class=RateClass.POLL)
CANCEL_TASK = Operation("task.end", "Cancel a task", _Carried, _Shown, WRITE, Effect.DESTRUCTIVE)
