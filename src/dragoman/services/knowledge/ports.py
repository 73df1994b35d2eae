"""What knowledge asks of others."""

from typing import Protocol
from uuid import UUID

from dragoman.context import Caller


class Consent(Protocol):
    """Knows whether a proposal may be accepted, beyond what roles allow."""

    async def check_proposal(self, caller: Caller, item_id: str, content: str, approval_id: UUID | None) -> None:
        """Hold it against what policy demands, and use the approval up; `content` is the commit of what is proposed.

        Raises:
            DragomanError: an approval is needed and not there, or is no good.
        """
        ...
