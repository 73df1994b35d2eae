"""A push configuration, as it is given, as it is shown, and as it is delivered to."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class NewPushConfig:
    """What a caller asks for: where to, and how the receiver knows us. `version` is of the protocol that asks."""

    url: str
    version: str
    id: str | None = None
    token: str | None = field(default=None, repr=False)
    scheme: str | None = None
    credentials: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class PushConfig:
    """A configuration as its tenant sees it: the token and the credentials are never read back."""

    task_id: UUID
    id: str
    url: str
    scheme: str | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A configuration that is due, leased to this process."""

    tenant_id: UUID
    task_id: UUID
    id: str
    version: str
    url: str
    scheme: str | None
    secret: bytes | None = field(repr=False)
    delivered_seq: int
    attempts: int
    created_at: datetime

    @property
    def place(self) -> str:
        """What its secret is sealed for."""
        return place_of(self.tenant_id, self.task_id, self.id)


def place_of(tenant: UUID, task_id: UUID, config_id: str) -> str:
    """The one configuration that a secret is for."""
    return f"push/{tenant}/{task_id}/{config_id}"
