"""What PostgreSQL and its driver complain of, in our words: nothing above this package knows the driver.

The SQLSTATE decides, by its class or as a whole, so that a state nobody has met yet is judged like its relatives.
"""
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# The driver has no types.

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import asyncpg
import structlog

from dragoman.errors import Conflict, InvalidInput, UpstreamUnavailable

_LOG = structlog.get_logger(__name__)
DRIVER_ERRORS: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
# The same request may well succeed later, without anybody changing it.
UNAVAILABLE_CLASSES: Final = {
    "08": "the connection failed",
    "28": "sessions of this user are refused",
    "3D": "the database is not there",
    "40": "another transaction was in the way",
    "53": "memory, disk or connections are used up",
    "57": "an administrator or a timeout intervened",
    "58": "a system call failed outside PostgreSQL",
    "F0": "the configuration is broken",
    "XX": "PostgreSQL failed inside",
}
# Of classes that otherwise say that a statement of ours is wrong.
UNAVAILABLE_STATES: Final = {
    "25006": "it is a replica, or read-only",
    "25P03": "the session was idle in a transaction for too long",
    "25P04": "the transaction took too long",
    "55000": "the database accepts no connections",
    "55006": "something is in use",
    "55P03": "a lock was not to be had",
}
# What cannot be stored: a null character, a number or a time out of range.
_UNFIT_STATES: Final = frozenset({"22003", "22008", "22021", "22P05"})
# Serialization failure, deadlock, lock timeout.
_CONTENDED_STATES: Final = frozenset({"40001", "40P01", "55P03"})
_UNIQUE_VIOLATION: Final = "23505"
_NOT_PERMITTED: Final = "42501"


class UniqueViolated(Conflict):
    """A row with this key exists already; `constraint` says which rule it broke."""

    def __init__(self, constraint: str) -> None:
        super().__init__("it exists already")
        self.constraint = constraint


class PoolExhausted(UpstreamUnavailable):
    """All connections of this process are in use and stay so: the server is overloaded, not PostgreSQL away."""

    def __init__(self, *, size: int, waited_s: float, retry_after_s: int = 2) -> None:
        super().__init__("database pool", retry_after_s=retry_after_s)
        self.message = (
            f"the server is overloaded: none of the {size} connections in its database pool came free within "
            f"{waited_s} s; try again in {retry_after_s} s"
        )
        self.args = (self.message,)


class Contended(UpstreamUnavailable):
    """Another transaction was in the way: a deadlock, or a lock that was not to be had in time."""

    def __init__(self) -> None:
        super().__init__("postgresql", retry_after_s=2)


def translated(error: BaseException) -> Exception:
    """Return the error to raise for one of the driver's."""
    state = _state_of(error)
    if state == _UNIQUE_VIOLATION:
        return UniqueViolated(getattr(error, "constraint_name", None) or "")
    # The driver's own refusal of an argument has the class that PostgreSQL's refusals derive from, and no state.
    if state in _UNFIT_STATES or type(error) is asyncpg.DataError:
        _LOG.warning("database.value_refused", reason=str(error))
        return InvalidInput.of("body", "holds a character, a number or a time that cannot be stored")
    if state in _CONTENDED_STATES:
        return Contended()
    if _is_unavailable(error, state):
        return UpstreamUnavailable("postgresql", retry_after_s=2)
    return RuntimeError(f"{type(error).__name__}: {error}")


@contextmanager
def translating() -> Generator[None]:
    """Raise our words in place of the driver's."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise translated(error) from error


def refuses_user(error: BaseException | None) -> bool:
    """Check whether PostgreSQL answered, and does not let this user in or into its role."""
    state = _state_of(error)
    return state is not None and (state[:2] == "28" or state == _NOT_PERMITTED)


def _state_of(error: BaseException | None) -> str | None:
    return getattr(error, "sqlstate", None) if isinstance(error, asyncpg.PostgresError) else None


def _is_unavailable(error: BaseException, state: str | None) -> bool:
    if state is not None:
        # A file system that went read-only is reported like a missing privilege.
        file_refused = state == _NOT_PERMITTED and str(error).startswith("could not ")
        return state[:2] in UNAVAILABLE_CLASSES or state in UNAVAILABLE_STATES or file_refused
    # The driver has one class for "the connection is gone" and for mistakes of ours, such as two statements at once.
    # Its internal error means that it has lost its place: PostgreSQL said goodbye on a connection that was idle.
    return not isinstance(error, asyncpg.InterfaceError) or "clos" in str(error)
