"""What can go wrong when a task is handed over."""

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


class NotRetryable(Conflict):
    """The task did not fail, so there is nothing to try again."""

    def __init__(self, state: str) -> None:
        super().__init__(
            f"the task is {state}; only one that failed is tried again", reason="NOT_RETRYABLE", state=state
        )


class DeadlinePassed(DragomanError):
    """The task was not done in time."""

    kind, code = Kind.TIMEOUT, "TIMEOUT"

    def __init__(self, deadline: str) -> None:
        super().__init__(f"the deadline {deadline} has passed", reason="DEADLINE_PASSED", deadline=deadline)


class EffectUnknown(Conflict):
    """A worker died between beginning a side effect and noting its outcome; only a person can tell."""

    def __init__(self, step: str) -> None:
        super().__init__(f"nobody knows whether the step {step!r} was done", reason="EFFECT_UNKNOWN", step=step)
