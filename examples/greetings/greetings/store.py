"""The SQL; `$1` is the tenant."""

from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope

ADD: LiteralString = "INSERT INTO greetings (tenant_id, id, name, words) VALUES ($1, $2, $3, $4)"
LIST: LiteralString = """
SELECT id, name, words FROM greetings
WHERE tenant_id = $1 AND ($3::uuid IS NULL OR id < $3) ORDER BY id DESC LIMIT $2"""


class GreetingStore:
    """The greetings of a tenant."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(self, scope: Scope, greeting_id: UUID, name: str, words: str) -> None:
        """Keep a greeting."""
        await self._db.execute(scope, ADD, scope.tenant, greeting_id, name, words)

    async def list_page(self, scope: Scope, limit: int, before: UUID | None) -> list[dict[str, Any]]:
        """Return some, newest first."""
        return [dict(row) for row in await self._db.fetch(scope, LIST, scope.tenant, limit, before)]
