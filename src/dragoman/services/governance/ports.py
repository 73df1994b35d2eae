"""What governance asks of the knowledge: the policies, as they were written at one revision."""

from dataclasses import dataclass
from typing import Protocol

from dragoman.context import Caller
from dragoman.services.governance.policies import Policy


@dataclass(frozen=True, slots=True)
class PolicyBook:
    """All accepted policies of a tenant at one revision, and what is wrong with those that could not be read."""

    revision: str
    policies: tuple[Policy, ...]
    problems: tuple[tuple[str, str], ...] = ()


class Policies(Protocol):
    """Where policies are kept."""

    async def read(self, caller: Caller, revision: str | None = None) -> PolicyBook:
        """The policies at a revision; the newest when none is named.

        Raises:
            UnknownRevision: there is no such revision.
        """
        ...
