"""What can go wrong with models, tasks and agents; all of it is a DragomanError with a code that callers know.

A narrower reason stands in `details.reason`; what a provider said is kept on the error for the log, and not told on.
"""

from typing import ClassVar

from dragoman.errors import Conflict, DragomanError, Kind, NotFound, TimedOut, UpstreamUnavailable
from dragoman.kit._llm import Usage
from dragoman.kit._thread import Thread


class ToolError(Exception):
    """Raised by a tool to tell the model, or the caller of the tool, what is wrong in its own words.

    `retry_after_s` is how long the other side asked to wait, where it did.
    """

    def __init__(self, message: str = "", *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class LlmUnavailable(UpstreamUnavailable):
    """The model does not answer, or answers nothing readable, also after the retries."""

    def __init__(self, model: str, reason: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(f"the model {model!r}", retry_after_s=retry_after_s)
        self.reason = reason


class LlmError(DragomanError):
    """The model answered, and it was of no use."""

    reason_code: ClassVar[str] = "LLM_ERROR"

    def __init__(self, message: str) -> None:
        super().__init__(message, reason=self.reason_code)


class LlmRefused(LlmError):
    """The provider refused the request (a bad key, a bad schema, a wrong model). `reason` is for the log alone."""

    reason_code = "LLM_REFUSED"

    def __init__(self, model: str, *, status: int, reason: str) -> None:
        super().__init__(f"the model {model!r} refused the request with status {status}")
        self.details["status"] = status
        self.reason = reason


class LlmOutputError(LlmError):
    """The answer did not fit the type that was asked for, and the repair did not either."""

    reason_code = "LLM_OUTPUT"

    def __init__(self, complaint: str, *, raw: str, thread: Thread, usage: Usage) -> None:
        super().__init__(f"the model's answer does not fit: {complaint}")
        self.raw, self.thread, self.usage = raw, thread, usage


class LlmLimitReached(LlmError):
    """A worker used up its turns or its tokens. `thread` is the conversation so far; a caller may go on from it."""

    reason_code = "LLM_LIMIT"

    def __init__(self, limit: str, *, thread: Thread, usage: Usage) -> None:
        super().__init__(f"the worker reached its limit of {limit}")
        self.thread, self.usage = thread, usage


class NoModel(LlmError):
    """The skill asks for a model, and the agent has none."""

    reason_code = "NO_MODEL"

    def __init__(self) -> None:
        super().__init__("this needs a model, and the agent has none: give it Agent(..., llm=...)")


class RemoteUnavailable(UpstreamUnavailable):
    """Another agent does not answer, or is not able to at present. `reason` is for the log alone."""

    def __init__(self, agent: str, reason: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(f"the agent {agent!r}", retry_after_s=retry_after_s)
        self.reason = reason


class RemoteTimedOut(TimedOut):
    """Another agent did not come to an end in time. Its task goes on, and whoever asks again waits on."""

    def __init__(self, agent: str, *, after_s: float) -> None:
        told = f"the agent {agent!r} was not done after {after_s:g} s; ask it again to wait on"
        super(TimedOut, self).__init__(told, after_s=after_s)  # nothing of it was stopped


class RemoteFailed(DragomanError):
    """Another agent answered, and it was of no use; `details.reason` says how it ended."""

    kind, code = Kind.INTERNAL, "UPSTREAM_FAILED"

    def __init__(self, message: str, *, reason: str, **details: object) -> None:
        super().__init__(message, reason=reason, **details)


class RemoteAsks(Conflict):
    """Another agent asked something while this message was on its way; it would be taken for the answer."""

    def __init__(self, agent: str) -> None:
        super().__init__(f"the agent {agent!r} has asked something by now; answer that first", reason="REMOTE_ASKS")


class InvalidTransition(Conflict):
    """A task moves only along its lifecycle."""

    def __init__(self, task_id: str, *, current: str, wanted: str) -> None:
        super().__init__(f"task {task_id!r} is {current} and cannot become {wanted}", reason="INVALID_TRANSITION")
        self.details.update(current=current, wanted=wanted)


class ContextMismatch(Conflict):
    """The task belongs to another conversation than the message says."""

    def __init__(self, task_id: str, context_id: str) -> None:
        super().__init__(f"task {task_id!r} does not belong to context {context_id!r}", reason="CONTEXT_MISMATCH")


class TaskNotFound(NotFound):
    """There is no such task."""

    def __init__(self, task_id: str) -> None:
        super().__init__("task", task_id)


class SkillNotFound(NotFound):
    """The agent has no such skill."""

    def __init__(self, skill_id: str) -> None:
        super().__init__("skill", skill_id)


class ResourceNotFound(NotFound):
    """No resource of the agent has this address, or none that the caller is offered."""

    def __init__(self, uri: str) -> None:
        super().__init__("resource", uri[:500])


class ToolNotFound(NotFound):
    """The agent has no such tool."""

    def __init__(self, name: str) -> None:
        super().__init__("tool", name)
