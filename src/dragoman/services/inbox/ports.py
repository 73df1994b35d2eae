"""What the inbox takes from a door, what it gives to handlers, and what it needs of the server."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from dragoman.context import Caller

Json = dict[str, Any]
Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One request of a sender, as it came: `headers` by name in small letters, the body byte by byte."""

    provider: str
    target: str
    method: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was stored of a delivery: the ids of its events, and whether all of them came before."""

    ids: Sequence[UUID]
    duplicate: bool


@dataclass(frozen=True, slots=True)
class Handshake:
    """An answer by which a sender learns that this address wants its events; nothing is stored."""

    body: Json
    headers: Sequence[Header] = ()


@dataclass(frozen=True, slots=True)
class Arrival:
    """One event of a delivery that was verified. `event_id` is the sender's, or follows from what it signed."""

    event_id: str
    type: str
    topic: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """An event, as handlers get it.

    `data` is what its topic says, in the same fields for every provider; `payload` is what the provider sent. `key`
    stays the same at every attempt, and is another one when an operator replays the event: use it as the idempotency
    key of what the handler does. `account` is the account that the source is registered for.
    """

    id: UUID
    key: str
    source_id: UUID
    provider: str
    topic: str
    type: str
    account: str | None
    data: Json
    payload: Any
    received_at: datetime


# The caller is the server in the tenant of the source, with the role operator.
EventHandler = Callable[[Caller, WebhookEvent], Awaitable[None]]


class Submit(Protocol):
    """Hands an action over to the task engine, uncounted, in the name of the server."""

    async def __call__(self, caller: Caller, envelope: Json) -> None:
        """Submit it.

        Raises:
            DragomanError: a guard refused it, or it could not be stored.
        """
        ...


class Counts(Protocol):
    """Counts what happens to webhooks."""

    def received(self, provider: str, outcome: str, count: int = 1) -> None:
        """Count deliveries: accepted, duplicate, rejected, limited or invalid."""
        ...

    def ended(self, outcome: str, count: int = 1) -> None:
        """Count attempts at events: processed, ignored, retried or dead."""
        ...

    def queued(self, waiting: int, oldest_s: float) -> None:
        """Set how many events wait, and for how long the oldest has."""
        ...
