"""What can go wrong with recommendations; `details.reason` says which."""

from dragoman.errors import Conflict, Forbidden
from dragoman.services.tasks.actions.errors import ResourceMoved


class WrongStatus(Conflict):
    """The recommendation is in a state in which this cannot be done."""

    def __init__(self, status: str, needed: str) -> None:
        super().__init__(
            f"the recommendation is {status}: only {needed} can be used here", reason="WRONG_STATUS", status=status
        )


class UnderWay(Conflict):
    """A task carries the recommendation out already."""

    def __init__(self, task_id: object) -> None:
        super().__init__(
            "the recommendation is being carried out already: look at its task",
            reason="UNDER_WAY", task_id=str(task_id) if task_id is not None else None,
        )  # fmt: skip


class ForPeople(Forbidden):
    """A program approves what people must."""

    def __init__(self, risk: str) -> None:
        super().__init__(
            f"a recommendation of {risk} risk is approved by a person: sign in as one", reason="PEOPLE_ONLY", risk=risk
        )


class RecommendationMoved(ResourceMoved):
    """What was approved is not what the recommendation says now."""

    def __init__(self, *, field: str, expected: object, current: object) -> None:
        super().__init__(
            f"the recommendation has another {field} by now: read it again",
            reason="RECOMMENDATION_MOVED", field=field, expected=str(expected), current=str(current),
        )  # fmt: skip


class NotStarted(Conflict):
    """A task was handed over past recommendation_execute."""

    def __init__(self) -> None:
        super().__init__(
            "remediation.execute is handed over by recommendation_execute: call that with the id of the recommendation",
            reason="USE_RECOMMENDATION_EXECUTE",
        )
