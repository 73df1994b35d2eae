"""What turns texts into vectors."""

from collections.abc import Sequence
from typing import Final, Protocol

Vector = Sequence[float]
# Of every vector that is kept: what the local model gives, and what others are asked to give.
DIMENSIONS: Final = 384


class EmbeddingFailed(Exception):
    """There are no vectors now; the message is fit for the log and for /health."""


class EmbedderAway(EmbeddingFailed):
    """Nobody answers, or nobody is let in: whatever the texts are, they can be tried again."""


class Embedder(Protocol):
    """Texts in, unit vectors of `DIMENSIONS` numbers out, in the same order."""

    @property
    def model(self) -> str:
        """Vectors of different models cannot be compared; this names the one."""
        ...

    async def embed(self, texts: Sequence[str], *, urgent: bool = False) -> list[Vector]:
        """Vectors; an urgent call, a question that somebody waits for, does not queue behind others.

        Raises:
            EmbeddingFailed: not now, or not these texts.
        """
        ...

    async def stop(self) -> None:
        """Let go of what was started for it."""
        ...


def as_text(vector: Vector) -> str:
    """As pgvector reads it."""
    return "[" + ",".join(f"{number:.6g}" for number in vector) + "]"


def unit(vector: Vector) -> list[float]:
    """Of length one and of `DIMENSIONS` numbers: a longer one is cut as nested models allow, a shorter one filled."""
    cut = [*vector[:DIMENSIONS], *[0.0] * (DIMENSIONS - len(vector))]
    length = sum(number * number for number in cut) ** 0.5
    return [number / length for number in cut] if length else cut
