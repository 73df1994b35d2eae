"""How far a request for signatures is. News may come twice, late and in any order; it only ever goes forward."""

from enum import StrEnum
from typing import Final


class Status(StrEnum):
    """Of a request; it is `delivered` once somebody opened it, `signed` once some have signed, `completed` once all."""

    CREATED = "created"
    SENT = "sent"
    DELIVERED = "delivered"
    SIGNED = "signed"
    COMPLETED = "completed"
    DECLINED = "declined"
    VOIDED = "voided"


class SignerState(StrEnum):
    """Of one signer."""

    PENDING = "pending"
    SIGNED = "signed"
    DECLINED = "declined"


FINAL: Final = frozenset({Status.COMPLETED, Status.DECLINED, Status.VOIDED})
OUT: Final = frozenset({Status.SENT, Status.DELIVERED, Status.SIGNED})
_RANK: Final = {status: rank for rank, status in enumerate(Status)}


def follows(now: Status, new: Status) -> bool:
    """Whether a status is news: what has ended stays as it is, and nothing goes back."""
    return now not in FINAL and _RANK[new] > _RANK[now]


def further(one: Status, other: Status) -> Status:
    """The one that comes later."""
    return max(one, other, key=_RANK.__getitem__)
