"""A push configuration, as it is given, as it is shown, and as it is delivered to."""

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from dragoman.services.audit.rows import Columns, hashed, stated


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

    @property
    def row(self) -> str:
        """Its row, as the audit trail calls it."""
        return f"push_configs/{self.task_id}/{self.id}"

    def promises(self, *, version: str, caller: dict[str, Any]) -> Columns:
        """Return what its row promises; of the address the hash, since it may be a secret of its receiver."""
        url = hashlib.sha256(self.url.encode()).hexdigest()
        return {"version": version, "url": url, "scheme": stated(self.scheme), "caller": hashed(caller)}


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
    # Who asked for it; unknown for those that are older than this column.
    caller: dict[str, Any] | None

    @property
    def place(self) -> str:
        """What its secret is sealed for."""
        return place_of(self.tenant_id, self.task_id, self.id)


def place_of(tenant: UUID, task_id: UUID, config_id: str) -> str:
    """The one configuration that a secret is for."""
    return f"push/{tenant}/{task_id}/{config_id}"
