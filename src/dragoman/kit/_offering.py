"""Who may see a part of an agent: everybody, or those for whom a condition holds at the time."""

from collections.abc import Callable
from typing import TypeAlias

from dragoman.context import Caller

Offered: TypeAlias = Callable[[Caller | None], bool]


class Offering:
    """Something that an agent offers. The condition is asked often and must be quick; None is for everybody, always."""

    def __init__(self, offered: Offered | None) -> None:
        self._offered = offered

    @property
    def for_all(self) -> bool:
        """Whether it is offered to everybody, always."""
        return self._offered is None

    def is_offered(self, caller: Caller | None) -> bool:
        """Whether it is there for this caller now."""
        return self._offered is None or self._offered(caller)
