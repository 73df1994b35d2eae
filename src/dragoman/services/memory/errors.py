"""What can go wrong with memories, beyond the general kinds."""

from collections.abc import Sequence
from typing import Any

from dragoman.errors import Conflict, Forbidden


class NotYourMemories(Forbidden):
    """The layers agent, user and session of a person are closed to other persons."""

    def __init__(self) -> None:
        super().__init__("these memories are private to another user", field="ids.user_id", reason="PRIVATE_MEMORIES")


class AmbiguousMemory(Conflict):
    """What was described fits several memories; `details.candidates` has them, best first, for somebody to choose."""

    def __init__(self, candidates: Sequence[dict[str, Any]]) -> None:
        super().__init__(
            f"{len(candidates)} memories fit; say which one by memory_id",
            reason="AMBIGUOUS",
            candidates=list(candidates),
        )


class ContentExists(Conflict):
    """Another memory of the same layer says exactly this."""

    def __init__(self, memory_id: str) -> None:
        super().__init__("another memory of this layer says the same", reason="SAME_CONTENT", memory_id=memory_id)
