"""The SQL of providers that a tenant has configured, and of what they tell by webhooks."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope

Record = dict[str, Any]

_CONFIGURATION: LiteralString = "tenant_id, id, provider, base_url, account_id, secret, webhook_keys, updated_at"
# Configured anew it keeps its id, which stands in the address that the provider was given for its webhooks.
PUT: LiteralString = f"""
INSERT INTO signature_providers (tenant_id, id, provider, base_url, account_id, secret, webhook_keys, updated_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (tenant_id, provider) DO UPDATE
SET base_url = excluded.base_url, account_id = excluded.account_id, secret = excluded.secret,
    webhook_keys = excluded.webhook_keys, updated_by = excluded.updated_by, updated_at = now()
RETURNING {_CONFIGURATION}"""
FIND: LiteralString = f"SELECT {_CONFIGURATION} FROM signature_providers WHERE tenant_id = $1 AND provider = $2"
GET: LiteralString = f"SELECT {_CONFIGURATION} FROM signature_providers WHERE tenant_id = $1 AND id = $2"
LIST: LiteralString = f"SELECT {_CONFIGURATION} FROM signature_providers WHERE tenant_id = $1 ORDER BY provider"
REMOVE: LiteralString = "DELETE FROM signature_providers WHERE tenant_id = $1 AND provider = $2"
OWNER: LiteralString = "SELECT tenant_id FROM signature_providers WHERE id = $1 AND provider = $2"

ADD_WEBHOOK: LiteralString = """
INSERT INTO signature_webhooks (tenant_id, id, configuration_id, digest, body) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant_id, configuration_id, digest) DO NOTHING"""
GET_WEBHOOK: LiteralString = """
SELECT id, configuration_id, body, outcome FROM signature_webhooks WHERE tenant_id = $1 AND id = $2"""
CLOSE_WEBHOOK: LiteralString = """
UPDATE signature_webhooks SET outcome = $3, signature_id = $4 WHERE tenant_id = $1 AND id = $2"""
OPEN_WEBHOOKS: LiteralString = """
SELECT tenant_id, id FROM signature_webhooks
WHERE outcome IS NULL AND received_at < now() - interval '10 seconds' ORDER BY received_at LIMIT $1"""
# What was completed at a provider is fetched from there; who cannot be reached for a week is asked no more by itself.
TO_FETCH: LiteralString = """
SELECT tenant_id, id FROM signatures
WHERE status = 'completed' AND signed_sha256 IS NULL AND status_at > now() - interval '7 days'
ORDER BY status_at DESC LIMIT $1"""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A provider as a tenant has configured it; the secret is sealed."""

    tenant_id: UUID
    id: UUID
    provider: str
    base_url: str
    account_id: str | None
    secret: bytes = field(repr=False)
    webhook_keys: int
    updated_at: datetime | None

    @property
    def place(self) -> str:
        """What its secret is sealed for."""
        return place_of(self.tenant_id, self.provider)


def place_of(tenant: UUID, provider: str) -> str:
    """The one configuration that a secret is for."""
    return f"signatures/{tenant}/{provider}"


class ProviderStore:
    """What a tenant has configured, and what came for it."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def put(self, scope: Scope, new: Configuration, *, updated_by: str) -> Configuration:
        """Add one, or replace the tenant's of the same provider."""
        row = await self._db.find(
            scope, PUT, scope.tenant, new.id, new.provider, new.base_url, new.account_id, new.secret, new.webhook_keys,
            updated_by,
        )  # fmt: skip
        if row is None:
            raise RuntimeError("an insert gave no row")
        return Configuration(*row)

    async def find(self, scope: Scope, provider: str) -> Configuration | None:
        """The tenant's, of a provider."""
        row = await self._db.find(scope, FIND, scope.tenant, provider)
        return Configuration(*row) if row else None

    async def get(self, scope: Scope, configuration_id: UUID) -> Configuration | None:
        """The tenant's, by its id."""
        row = await self._db.find(scope, GET, scope.tenant, configuration_id)
        return Configuration(*row) if row else None

    async def list(self, scope: Scope) -> list[Configuration]:
        """All of the tenant."""
        return [Configuration(*row) for row in await self._db.fetch(scope, LIST, scope.tenant)]

    async def remove(self, scope: Scope, provider: str) -> bool:
        """Forget one; False when there is none."""
        return await self._db.execute(scope, REMOVE, scope.tenant, provider) > 0

    async def add_webhook(
        self, scope: Scope, webhook_id: UUID, configuration_id: UUID, *, digest: bytes, body: bytes
    ) -> bool:
        """Keep what came; False when the same came before."""
        values = (webhook_id, configuration_id, digest, body)
        return await self._db.execute(scope, ADD_WEBHOOK, scope.tenant, *values) > 0

    async def find_webhook(self, scope: Scope, webhook_id: UUID) -> Record | None:
        """What came."""
        row = await self._db.find(scope, GET_WEBHOOK, scope.tenant, webhook_id)
        return dict(row) if row else None

    async def close_webhook(self, scope: Scope, webhook_id: UUID, outcome: str, signature_id: UUID | None) -> None:
        """Note what became of it."""
        await self._db.execute(scope, CLOSE_WEBHOOK, scope.tenant, webhook_id, outcome, signature_id)


class BacklogStore:
    """What was left undone, over all tenants, as the role `dragoman_core`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def find_owner(self, configuration_id: UUID, provider: str) -> UUID | None:
        """Whose configuration it is."""
        row = await self._db.find(Scope(), OWNER, configuration_id, provider)
        return row["tenant_id"] if row else None

    async def list_webhooks(self, limit: int) -> list[tuple[UUID, UUID]]:
        """Webhooks that nobody has looked at, with their tenants."""
        return [(row["tenant_id"], row["id"]) for row in await self._db.fetch(Scope(), OPEN_WEBHOOKS, limit)]

    async def list_to_fetch(self, limit: int) -> list[tuple[UUID, UUID]]:
        """Completed requests whose signed document is still at the provider, with their tenants."""
        return [(row["tenant_id"], row["id"]) for row in await self._db.fetch(Scope(), TO_FETCH, limit)]
