"""What contract work asks of others."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SignatureVerdict:
    """What the signatures in a PDF are worth; `valid` when all are intact, cover the whole and can be vouched for."""

    valid: bool
    explanation: str
    signers: tuple[str, ...] = ()


class SignatureVerifier(Protocol):
    """Looks at the signatures in a PDF."""

    async def verify(self, pdf: bytes, *, sha256: str) -> SignatureVerdict:
        """Who signed it, and whether it holds.

        Raises:
            DragomanError: it cannot be looked at.
        """
        ...
