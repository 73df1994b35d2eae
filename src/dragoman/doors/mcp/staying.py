"""Whether a caller whose stream is open is still let in."""

from dragoman.context import Caller
from dragoman.errors import DragomanError, Unauthenticated
from dragoman.infra.limits import OpenStreams


async def may_stay(streams: OpenStreams, caller: Caller) -> bool:
    """Check that the credential of a caller is still good, and that neither its user nor its tenant was shut out."""
    try:
        await streams.check(caller)
    except Unauthenticated:  # the role was changed, or the credential has ended: every list has changed
        return False
    except DragomanError:  # it cannot be found out now, which says nothing against a stream that is open
        pass
    return True
