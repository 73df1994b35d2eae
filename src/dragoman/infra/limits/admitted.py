"""What an admission gives: a value to pass on, so that what was counted is not counted again."""

from dragoman.context import Caller


class Admitted:
    """Says that one operation was counted for one caller. It is used up by the first operation that it fits.

    A token that does not fit, or was used before, is worth nothing: the operation is then counted like any other.
    `included` says that the operation is part of a request that was counted, and was not counted for itself.
    """

    __slots__ = ("_asked", "_caller", "_used", "included")

    def __init__(self, caller: Caller, asked: object, *, included: bool = False) -> None:
        self._caller = caller
        self._asked = asked
        self._used = False
        self.included = included

    def use(self, caller: Caller, asked: object) -> bool:
        """Return whether this caller need not be counted for this operation; True is said once."""
        if self._used or asked is not self._asked or caller != self._caller:
            return False
        self._used = True
        return True
