"""What knowledge asks of others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from dragoman.context import Caller


@dataclass(frozen=True, slots=True)
class Ending:
    """An item that is about to end: which, at which commit, by which operation, and what takes its place."""

    operation: str
    item_id: str
    commit: str
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Merging:
    """A merge that is about to be made: from where, of which commit, and the policies that end or change by it."""

    remote: str
    commit: str
    before: str
    policies: Sequence[dict[str, str]]


class RuleCheck(Protocol):
    """Knows whether the rules on actions of a policy can be used."""

    async def check(self, caller: Caller, metadata: dict[str, Any]) -> None:
        """Check the rules of a proposed policy.

        Raises:
            InvalidInput: a rule cannot be read, or can never match.
        """
        ...


class Consent(Protocol):
    """Knows whether knowledge may come into force or end, beyond what roles allow."""

    async def check_proposal(self, caller: Caller, item_id: str, content: str, approval_id: UUID | None) -> None:
        """Hold it against what policy demands, and use the approval up; `content` is the commit of what is proposed.

        Raises:
            DragomanError: an approval is needed and not there, or is no good.
        """
        ...

    async def check_ending(self, caller: Caller, ending: Ending, approval_id: UUID | None) -> None:
        """Hold the end of an item against what policy demands, and use the approval up.

        Raises:
            DragomanError: an approval is needed and not there, or is no good.
        """
        ...

    async def find_ended(self, caller: Caller, before: str, after: str) -> list[dict[str, str]]:
        """Return the policies in force at one commit that have ended, changed or been lessened at another."""
        ...

    async def check_merge(self, caller: Caller, merging: Merging, approval_id: UUID | None) -> None:
        """Hold a merge that ends policies against what policy demanded before it, and use the approval up.

        Raises:
            DragomanError: an approval is needed and not there, or is no good.
        """
        ...
