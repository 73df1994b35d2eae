"""What contract work asks of others."""

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from dragoman.context import Caller


@dataclass(frozen=True, slots=True)
class SignatureVerdict:
    """What the signatures in a PDF are worth; `valid` when all have signed and can be vouched for, and it is intact."""

    valid: bool
    explanation: str
    signers: tuple[str, ...] = ()


class SignatureVerifier(Protocol):
    """Looks at the signatures in a PDF."""

    async def verify(self, caller: Caller, document_id: UUID, pdf: bytes, *, sha256: str) -> SignatureVerdict:
        """Who signed it, whether it holds, and whether all have signed who were asked to.

        Raises:
            DragomanError: it cannot be looked at.
        """
        ...
