"""What the demo takes and gives."""

from uuid import UUID

from pydantic import Field

from dragoman.operations import Input, Output


class LoadDemo(Input):
    """Make up months of spend; the same again changes nothing."""

    months: int = Field(6, ge=2, le=12, description="Months of spend, of 30 days each, until yesterday.")
    seed: int = Field(7, ge=0, le=2**31 - 1, description="Another seed makes another company.")
    remove: bool = Field(default=False, description="Remove the demo instead, with all that was found in it.")


class DemoStarted(Output):
    """The task that loads or removes the demo."""

    task_id: UUID
    state: str

    @property
    def id(self) -> UUID:
        """Where it is found."""
        return self.task_id
