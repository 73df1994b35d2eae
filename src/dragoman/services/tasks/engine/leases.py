"""Leases: which process may work on a task, and for how long it may be sure of that.

PostgreSQL's clock decides when a lease has ended. The process that holds it counts by its own clock from before it
asked, and so stops first, also after it was suspended: `fenced` lets no code of an attempt run on without a look at
the clock. Tasks of its own that a skill starts are not driven by it; they are stopped by their next call to the engine.
"""

import time
from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from math import inf
from types import coroutine
from typing import Any, Final, TypeVar
from uuid import UUID

from dragoman.kit import AttemptFenced

R = TypeVar("R")
# It goes on while the machine sleeps, as PostgreSQL's does elsewhere; where there is no such clock, the usual one.
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Return the time by which this process counts its leases, in seconds since some moment."""
    return time.clock_gettime(_CLOCK)


@dataclass(slots=True)
class Lease:
    """The right of one process to work on one task, in one attempt.

    `until` is on this process' own clock. Work that is not stored yet cannot be taken over, and needs no lease:
    its `until` is infinite. `revoked` says that another process, or a person, has the task now.
    """

    task_id: UUID
    owner: UUID
    attempt: int
    until: float = inf
    revoked: bool = False
    fifo_key: str | None = None

    @property
    def valid(self) -> bool:
        """Whether this process may still work on the task."""
        return not self.revoked and now() < self.until

    def check(self) -> None:
        """Refuse to go on without the lease.

        Raises:
            AttemptFenced: the lease has ended, or another has the task.
        """
        if not self.valid:
            raise AttemptFenced


@coroutine
def fenced(work: Coroutine[Any, Any, R], lease: Lease) -> Generator[Any, Any, R]:
    """Run the work as long as its lease is valid; then throw `AttemptFenced` into it, at the place where it waits.

    A timer or an answer that was due while the process was suspended would let the work go on before any watchdog of
    the same process could cancel it. This stands between the event loop and the work, and so comes first.
    """
    thrown: BaseException | None = None
    try:
        while True:
            try:
                if thrown is None and not lease.valid:
                    thrown = AttemptFenced()
                waits_for = work.send(None) if thrown is None else work.throw(thrown)
            except StopIteration as ended:
                return ended.value
            try:
                yield waits_for
                thrown = None
            except BaseException as error:  # noqa: BLE001 - a cancellation, for the work to deal with
                thrown = error
    finally:
        work.close()
