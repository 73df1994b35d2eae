"""Observations of one request after another, entered together.

Many entries in a row cost less than as many one by one, with a whole request between each two.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

_MOST: Final = 64


class Ledger:
    """Holds observations back until there are enough of them, or until somebody wants to see the counts."""

    def __init__(self, *, most: int = _MOST) -> None:
        self._most = most
        self._held: deque[Callable[[], None]] = deque()

    def note(self, observe: Callable[[], None]) -> None:
        """Enter it, now or later; in any case before `settle` returns."""
        self._held.append(observe)
        if len(self._held) >= self._most:
            self.settle()

    def settle(self) -> None:
        """Enter everything that was noted; two threads may do so at once."""
        while True:
            try:
                observe = self._held.popleft()
            except IndexError:
                return
            observe()
