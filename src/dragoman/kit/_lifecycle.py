"""The steps of a task; there are no others.

idle ─> processing ─> completed | failed | rejected
            │  ▲
            ▼  │              idle, processing and input_required can also be cancelled
       input_required
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from dragoman.kit._errors import InvalidTransition


class TaskState(StrEnum):
    """Where a task stands."""

    IDLE = "idle"
    PROCESSING = "processing"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    REJECTED = "rejected"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether nothing can happen to it any more."""
        return not TRANSITIONS[self]

    @property
    def at_rest(self) -> bool:
        """Whether nothing happens to it by itself."""
        return self.terminal or self is TaskState.INPUT_REQUIRED


_OUT_OF_PROCESSING = frozenset(
    {
        TaskState.INPUT_REQUIRED,
        TaskState.COMPLETED,
        TaskState.FAILED,
        TaskState.REJECTED,
        TaskState.CANCELLED,
    }
)
TRANSITIONS: Final[Mapping[TaskState, frozenset[TaskState]]] = {
    TaskState.IDLE: frozenset({TaskState.PROCESSING, TaskState.CANCELLED}),
    TaskState.PROCESSING: _OUT_OF_PROCESSING,
    TaskState.INPUT_REQUIRED: frozenset({TaskState.PROCESSING, TaskState.CANCELLED}),
    TaskState.COMPLETED: frozenset(),
    TaskState.FAILED: frozenset(),
    TaskState.REJECTED: frozenset(),
    TaskState.CANCELLED: frozenset(),
}


def check_step(task_id: str, current: TaskState, wanted: TaskState) -> None:
    """Refuse what is not in the table.

    Raises:
        InvalidTransition: the task cannot go there from where it stands.
    """
    if wanted not in TRANSITIONS[current]:
        raise InvalidTransition(task_id, current=current, wanted=wanted)
