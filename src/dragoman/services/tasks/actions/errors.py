"""What can go wrong when a task is handed over."""

from collections.abc import Sequence
from typing import Any

from dragoman.errors import Conflict, DragomanError, Forbidden, Kind, NotFound


class CapabilityNotFound(NotFound):
    """No worker of the tenant performs the action."""

    code = "CAPABILITY_NOT_FOUND"

    def __init__(self, action: str) -> None:
        super().__init__("worker for the action", action)


class GovernanceContextRequired(Forbidden):
    """A sensitive action came without the policies or approvals it needs."""

    code = "GOVERNANCE_CONTEXT_REQUIRED"

    def __init__(self, action: str, missing: list[dict[str, Any]]) -> None:
        names = " and ".join(str(one["field"]) for one in missing)
        super().__init__(f"{action} is sensitive and needs {names}", action=action, missing=missing)


class ActorMismatch(Forbidden):
    """The actor of an envelope is not who the credentials say."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, reason="ACTOR_MISMATCH")


class GrantEnded(Forbidden):
    """The task was accepted under a grant that has ended or expired, or no longer covers the action."""

    def __init__(self, on_behalf_of: str) -> None:
        super().__init__(
            f"the grant to act for {on_behalf_of} has ended: ask for another", reason="GRANT_ENDED",
            on_behalf_of=on_behalf_of,
        )  # fmt: skip


class ResourceMoved(Conflict):
    """The resource is not what the caller or an approval names; an attempt that finds it so is refused."""


class NotRetryable(Conflict):
    """The task did not fail, so it cannot be retried."""

    def __init__(self, state: str) -> None:
        super().__init__(f"the task is {state}; only a failed task can be retried", reason="NOT_RETRYABLE", state=state)


class DeadlinePassed(DragomanError):
    """The task was not done in time."""

    kind, code = Kind.TIMEOUT, "TIMEOUT"

    def __init__(self, deadline: str) -> None:
        super().__init__(f"the deadline {deadline} has passed", reason="DEADLINE_PASSED", deadline=deadline)


class EffectUnknown(Conflict):
    """A worker died between beginning a side effect and noting its outcome; only a person can tell."""

    def __init__(self, step: str) -> None:
        super().__init__(
            f"the outcome of the step {step!r} is unknown: check the other system, and answer with effect.done",
            reason="EFFECT_UNKNOWN",
            step=step,
        )


class InputNeeded(Conflict):
    """A worker cannot go on without an answer; the task parks with the question, and goes on with the answer."""

    def __init__(self, question: str, *, worker: str) -> None:
        super().__init__(question, reason="INPUT_NEEDED", worker=worker)
        self.question = question


class WorkerNotFound(NotFound):
    """The tenant has no such worker."""

    def __init__(self, name: str) -> None:
        super().__init__("worker", name)


class WorkerExists(Conflict):
    """The tenant has a worker of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the worker {name!r} is registered already", field="name", reason="WORKER_EXISTS")


class TooManyWorkers(Conflict):
    """The tenant has as many workers as it may."""

    def __init__(self, *, limit: int) -> None:
        super().__init__(f"at most {limit} workers can be registered", limit=limit, reason="TOO_MANY_WORKERS")


class NotDeclared(Conflict):
    """The worker does not declare the action, so that it cannot be allowed to perform it."""

    def __init__(self, worker: str, action: str) -> None:
        super().__init__(f"the worker {worker!r} does not declare {action}", reason="NOT_DECLARED", action=action)


class WaitsForApproval(Conflict):
    """The task waits for approvals, which are decided by an operation of their own."""

    def __init__(self, approvals: Sequence[str]) -> None:
        super().__init__(
            "the task waits for approvals: decide them instead of answering the task",
            reason="WAITS_FOR_APPROVAL",
            approvals=list(approvals),
        )
