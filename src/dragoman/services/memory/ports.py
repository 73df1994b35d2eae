"""What memory asks of others."""

from dataclasses import dataclass
from typing import Protocol

from dragoman.context import Caller
from dragoman.services.memory.layers import Place


@dataclass(frozen=True, slots=True)
class Objections:
    """What the policies of a revision have against something; nothing, if there are none."""

    reasons: list[str]
    policy_version: str


class PromotionPolicies(Protocol):
    """Those who say what may be shared with whom."""

    async def objections(self, caller: Caller, place: Place, content: str) -> Objections:
        """Against putting this text there, as it would be put. Nothing of the text is kept."""
        ...
