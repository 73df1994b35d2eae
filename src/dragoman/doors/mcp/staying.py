"""Whether one who has waited for long would still be let in."""

from typing import Final

from dragoman.context import Caller
from dragoman.errors import DragomanError, Unauthenticated
from dragoman.gate import Gate
from dragoman.operations import Passage, RateClass
from dragoman.services.tenancy.operations import SHOW_IDENTITY

# Everybody may ask who they are, as long as their credentials are good.
_STAY: Final = Passage(SHOW_IDENTITY.name, SHOW_IDENTITY.permission, RateClass.POLL)


async def may_stay(gate: Gate, caller: Caller) -> bool:
    """Whether the credentials of a caller are still good."""
    try:
        await gate.guard(_STAY, caller)
    except Unauthenticated:  # the role was changed, or the credential taken back: every list is another now
        return False
    except DragomanError:  # too many requests of this caller say nothing against a stream that is open
        pass
    return True
