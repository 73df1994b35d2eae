"""How much work one check may be. A thread cannot be stopped, so the work asks whether it may go on."""

import time
from collections.abc import Callable
from typing import Final

# Of CPU time: a busy machine refuses nothing. Ten megabytes against 500 patterns take a tenth of it.
MOST_S: Final = 30.0


class TooMuchToCheck(Exception):
    """The files against the constraints take more than `limit_s` of CPU time."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"more than {limit_s:g} s of CPU time")
        self.limit_s = limit_s


class Effort:
    """What is left for one check; to be used by the thread that made it."""

    def __init__(self, limit_s: float | None = None, *, clock: Callable[[], float] = time.thread_time) -> None:
        self._limit_s = MOST_S if limit_s is None else limit_s
        self._clock = clock
        self._until = clock() + self._limit_s

    def spend(self) -> None:
        """Go on, if there is time left.

        Raises:
            TooMuchToCheck: there is none.
        """
        if self._clock() > self._until:
            raise TooMuchToCheck(self._limit_s)
