"""Texts that wait for their vectors, and where these go: a pair of tables, with what the owner of the texts adds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import NOBODY, Database


@dataclass(frozen=True, slots=True)
class Waiting:
    """A text that waits for its vector; without content it was forgotten meanwhile."""

    tenant: UUID
    key: tuple[Any, ...]
    attempts: int
    content: str | None


@dataclass(frozen=True, slots=True)
class Shelf:
    """What makes one queue another: two tables whose rows have a tenant and the columns of `key`.

    `rows` is a table of those columns, made of one array for each from `$1` on. `content` gives the text that belongs
    to a row `k`. `settle` and `keep` are given the model and then the same arrays, `keep` also one of vectors as text:
    the one settles those for which there is a vector already and returns their keys, the other stores the vectors. Both
    take off the queue what is done.
    """

    pending: LiteralString
    vectors: LiteralString
    key: LiteralString
    rows: LiteralString
    content: LiteralString
    settle: LiteralString
    keep: LiteralString


class VectorQueue:
    """Works for all tenants at once, in the role that may. Each method is one statement."""

    def __init__(self, db: Database, shelf: Shelf) -> None:
        self._db = db
        self._shelf = shelf

    async def has_vectors(self) -> bool:
        """Whether this PostgreSQL has pgvector."""
        sql: LiteralString = f"SELECT to_regclass('{self._shelf.vectors}') IS NOT NULL AS there"
        row = await self._db.find(NOBODY, sql)
        return row is not None and bool(row["there"])

    async def take(self, most: int) -> list[Waiting]:
        """Some that wait, oldest first, for a short while nobody else's; whoever dies with them only delays them."""
        shelf = self._shelf
        sql: LiteralString = f"""
WITH taken AS (
    SELECT tenant_id, {shelf.key} FROM {shelf.pending} WHERE taken_until IS NULL OR taken_until < now()
    ORDER BY created_at LIMIT $1 FOR UPDATE SKIP LOCKED
), k AS (
    UPDATE {shelf.pending} SET taken_until = now() + interval '15 seconds', attempts = attempts + 1
    WHERE (tenant_id, {shelf.key}) IN (SELECT * FROM taken) RETURNING tenant_id, {shelf.key}, attempts
)
SELECT t.content, k.attempts, k.tenant_id, {shelf.key} FROM k LEFT JOIN LATERAL ({shelf.content}) t ON true"""
        rows = await self._db.fetch(NOBODY, sql, most)
        return [Waiting(tenant, tuple(key), attempts, content) for content, attempts, tenant, *key in rows]

    async def settle_known(self, model: str, taken: Sequence[Waiting]) -> list[Waiting]:
        """Take those off the queue for which there is a vector already; the others."""
        rows = await self._db.fetch(NOBODY, self._shelf.settle, model, *_columns(taken))
        known = {tuple(row) for row in rows}
        return [one for one in taken if (one.tenant, *one.key) not in known]

    async def keep(self, model: str, taken: Sequence[Waiting], vectors: Sequence[str]) -> None:
        """Store their vectors and take them off the queue."""
        await self._db.execute(NOBODY, self._shelf.keep, model, *_columns(taken), list(vectors))

    async def put_back(self, taken: Sequence[Waiting]) -> None:
        """Let them be taken again, as if they had not been."""
        shelf = self._shelf
        sql: LiteralString = f"""
UPDATE {shelf.pending} SET taken_until = NULL, attempts = attempts - 1
WHERE (tenant_id, {shelf.key}) IN (SELECT * FROM {shelf.rows})"""
        await self._db.execute(NOBODY, sql, *_columns(taken))

    async def give_up(self, taken: Sequence[Waiting]) -> None:
        """Take them off the queue without vectors."""
        shelf = self._shelf
        sql: LiteralString = f"""
DELETE FROM {shelf.pending} WHERE (tenant_id, {shelf.key}) IN (SELECT * FROM {shelf.rows})"""
        await self._db.execute(NOBODY, sql, *_columns(taken))

    async def oldest_waiting_s(self) -> float:
        """The age of the oldest that waits; 0 when none does."""
        sql: LiteralString = f"""
SELECT extract(epoch FROM now() - min(created_at))::float8 AS oldest_s FROM {self._shelf.pending}"""
        row = await self._db.find(NOBODY, sql)
        return (row["oldest_s"] if row else None) or 0.0


def _columns(taken: Sequence[Waiting]) -> list[list[Any]]:
    return [list(column) for column in zip(*((one.tenant, *one.key) for one in taken), strict=True)]
