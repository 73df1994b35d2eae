"""What can go wrong with tasks, beyond the general kinds."""

from dragoman.errors import Conflict, DragomanError, Forbidden, InvalidInput, Kind, NotFound


class TaskNotFound(NotFound):
    """There is no such task, or it belongs to another tenant."""

    def __init__(self, ref: str) -> None:
        super().__init__("task", ref[:200])


class CallerRefused(Forbidden):
    """The caller that sent the work was let in then, and would not be now."""


class TaskClosed(Conflict):
    """The task has ended, and takes no more messages."""

    def __init__(self, state: str) -> None:
        super().__init__(f"the task is {state} and takes no more messages", reason="TASK_CLOSED", state=state)


class TaskBusy(Conflict):
    """The task is being worked on, and has asked nothing."""

    def __init__(self, state: str) -> None:
        super().__init__(f"the task is {state} and waits for no answer", reason="TASK_BUSY", state=state)


class TaskMoved(Conflict):
    """The task changed between the moment it was read and the moment it was to be written."""

    def __init__(self, state: str) -> None:
        super().__init__(
            f"the task is no longer {state}: read it again, and repeat what still applies",
            reason="TASK_BUSY",
            state=state,
        )


class SecretsGone(Conflict):
    """The work was left by a process that died, and with it the secrets that the message brought."""

    code = "SECRETS_GONE"

    def __init__(self, tool: str) -> None:
        super().__init__(
            f"{tool} was not done, and the secrets it was given are not kept: send the message again", tool=tool
        )


class NotCancelable(Conflict):
    """The task has ended, and cannot be cancelled any more."""

    def __init__(self, state: str) -> None:
        super().__init__(f"the task is {state} and cannot be cancelled", reason="NOT_CANCELABLE", state=state)


class WrongContext(InvalidInput):
    """The task belongs to another conversation."""

    @classmethod
    def given(cls, context_id: str) -> "WrongContext":
        """As the caller sees it."""
        return cls([], f"the task does not belong to the context {context_id[:100]!r}")


class TaskTimedOut(DragomanError):
    """The work on a task took longer than it may; it was stopped."""

    kind, code, retryable = Kind.TIMEOUT, "TIMEOUT", True

    def __init__(self, *, after_s: float) -> None:
        super().__init__(f"the task took longer than {after_s:g} s and was stopped", after_s=after_s)


class EffectBusy(DragomanError):
    """An earlier attempt may still be at a side effect; what came of it is not known yet."""

    kind, code, retryable = Kind.UNAVAILABLE, "EFFECT_BUSY", True

    def __init__(self, step: str, *, busy_s: float) -> None:
        super().__init__(f"an earlier attempt may still perform the step {step!r}; the task is retried", step=step)
        self.busy_s = busy_s


class ThreadExpired(DragomanError):
    """The conversation was idle for too long."""

    kind, code = Kind.CONFLICT, "THREAD_EXPIRED"

    def __init__(self, thread_id: str) -> None:
        super().__init__(f"the conversation {thread_id[:100]!r} has expired; begin a new one")


class ArtifactTooLarge(DragomanError):
    """A task made more than it may."""

    kind, code = Kind.TOO_LARGE, "ARTIFACT_TOO_LARGE"

    def __init__(self, *, limit_bytes: int) -> None:
        super().__init__(f"what the task made exceeds {limit_bytes} bytes", limit_bytes=limit_bytes)


class TaskStateTooLarge(DragomanError):
    """A skill would keep more for its task than it may."""

    kind, code = Kind.TOO_LARGE, "TASK_STATE_TOO_LARGE"

    def __init__(self, *, limit_bytes: int) -> None:
        super().__init__(f"what is kept for the task would exceed {limit_bytes} bytes", limit_bytes=limit_bytes)


class StateTooLarge(DragomanError):
    """A conversation would hold more than it may."""

    kind, code = Kind.TOO_LARGE, "STATE_TOO_LARGE"

    def __init__(self, *, limit_bytes: int) -> None:
        super().__init__(f"the conversation would exceed {limit_bytes} bytes", limit_bytes=limit_bytes)
