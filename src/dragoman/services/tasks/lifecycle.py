"""The one lifecycle of every task. Each protocol's states are functions of these."""

from enum import StrEnum

from dragoman.errors import Conflict


class State(StrEnum):
    """Where a task stands."""

    REQUESTED = "requested"
    VALIDATED = "validated"
    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    INPUT_REQUIRED = "input_required"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    DEAD_LETTER = "dead_letter"


S = State
TRANSITIONS: dict[State, frozenset[State]] = {
    S.REQUESTED: frozenset({S.VALIDATED, S.REJECTED, S.FAILED, S.CANCELLED}),
    S.VALIDATED: frozenset({S.QUEUED, S.IN_PROGRESS, S.INPUT_REQUIRED, S.REJECTED, S.FAILED, S.CANCELLED}),
    S.QUEUED: frozenset({S.IN_PROGRESS, S.INPUT_REQUIRED, S.FAILED, S.CANCELLED, S.DEAD_LETTER}),
    S.IN_PROGRESS: frozenset(
        {S.SUCCEEDED, S.FAILED, S.REJECTED, S.CANCELLED, S.INPUT_REQUIRED, S.QUEUED, S.DEAD_LETTER}
    ),
    S.INPUT_REQUIRED: frozenset({S.QUEUED, S.IN_PROGRESS, S.FAILED, S.REJECTED, S.CANCELLED}),
    # Only an operator brings these back, as a new run.
    S.FAILED: frozenset({S.QUEUED}),
    S.DEAD_LETTER: frozenset({S.QUEUED}),
    S.SUCCEEDED: frozenset(),
    S.REJECTED: frozenset(),
    S.CANCELLED: frozenset(),
}
# By their texts: looking up a member of an enumeration takes longer than all of the check.
_NEXT = {current.value: frozenset(state.value for state in wanted) for current, wanted in TRANSITIONS.items()}
TERMINAL = frozenset({S.SUCCEEDED, S.FAILED, S.REJECTED, S.CANCELLED, S.DEAD_LETTER})
RESTING = TERMINAL | {S.INPUT_REQUIRED}


class InvalidTransition(Conflict):
    """The lifecycle has no such step."""

    code = "INVALID_TRANSITION"

    def __init__(self, current: State, wanted: State) -> None:
        super().__init__(f"a task that is {current} cannot become {wanted}", current=current, wanted=wanted)


def check_transition(current: str, wanted: str) -> None:
    """Refuse a step between two states that the table does not have.

    Raises:
        InvalidTransition: it does not.
    """
    if wanted not in _NEXT[current]:
        raise InvalidTransition(State(current), State(wanted))
