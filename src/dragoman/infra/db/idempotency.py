"""Idempotency keys: claimed first, in the transaction of the write that they protect."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import Context
from datetime import timedelta
from typing import Any, Final, LiteralString

import structlog

from dragoman.context import Caller
from dragoman.errors import IdempotencyConflict, InvalidInput, UpstreamUnavailable
from dragoman.infra.db.database import Database
from dragoman.infra.db.document import document
from dragoman.infra.db.pool import Scope, scope_of

# A second claim of a key waits until the transaction that holds it ends; then it finds the row, or inserts it.
CLAIM: LiteralString = """
INSERT INTO idempotency_keys (tenant_id, scope, key, digest) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING"""
# A long write says that it is under way in a transaction of its own; one whose process has died may be begun again.
BEGIN: LiteralString = """
INSERT INTO idempotency_keys AS k (tenant_id, scope, key, digest, begun_until)
VALUES ($1, $2, $3, $4, now() + $5::interval)
ON CONFLICT (tenant_id, scope, key) DO UPDATE SET digest = excluded.digest, begun_until = excluded.begun_until
WHERE k.output IS NULL AND k.begun_until < now()"""
EXTEND: LiteralString = """
UPDATE idempotency_keys SET begun_until = now() + $4::interval
WHERE tenant_id = $1 AND scope = $2 AND key = $3 AND output IS NULL"""
GIVE_BACK: LiteralString = """
DELETE FROM idempotency_keys WHERE tenant_id = $1 AND scope = $2 AND key = $3 AND output IS NULL"""
FIND: LiteralString = "SELECT digest, output FROM idempotency_keys WHERE tenant_id = $1 AND scope = $2 AND key = $3"
KEEP: LiteralString = "UPDATE idempotency_keys SET output = $4 WHERE tenant_id = $1 AND scope = $2 AND key = $3"
# In one order, in every process: a key that another transaction has is waited for.
CLAIM_ALL: LiteralString = """
INSERT INTO idempotency_keys (tenant_id, scope, key, digest)
SELECT $1, g.subject, g.key, decode(g.digest, 'hex')
FROM json_to_recordset($2::text::json) AS g (subject text, key text, digest text) ORDER BY g.subject, g.key
ON CONFLICT DO NOTHING RETURNING scope, key"""
# Compared as sets of one: plain equality can be hashed, and a plan from when the table was small would read all of it.
KEEP_ALL: LiteralString = """
UPDATE idempotency_keys k SET output = g.output
FROM jsonb_to_recordset($2::text::jsonb) AS g (subject text, key text, output jsonb)
WHERE k.tenant_id = $1 AND k.scope = ANY (ARRAY[g.subject]) AND k.key = ANY (ARRAY[g.key])"""


_LOG = structlog.get_logger(__name__)
_LONGEST_KEY = 200
# How long the key of a long write is taken after its process has died, and how often others look whether it has ended.
_BEGUN: Final = timedelta(seconds=15)
_LOOK_AGAIN_S: Final = 0.2


def check_key(key: str) -> None:
    """Check that a text can be an idempotency key.

    Raises:
        InvalidInput: it is empty, too long, or not printable ASCII.
    """
    if not 1 <= len(key) <= _LONGEST_KEY or not (key.isascii() and key.isprintable()):
        raise InvalidInput.of("Idempotency-Key", f"must be 1 to {_LONGEST_KEY} printable ASCII characters")


class IdempotencyKeys:
    """Stores keys with the output of their first use; a key belongs to the subject that sent it.

    `claim` and `keep` run inside a unit of work: only its commit consumes a key.
    """

    def __init__(self, db: Database, *, scope: Callable[[Caller], Scope] = scope_of) -> None:
        self._db = db
        self._scope = scope

    async def find(self, caller: Caller, key: str, digest: bytes) -> Any | None:
        """Return the output of the first use of the key; None when no use of it has ended.

        Raises:
            IdempotencyConflict: the first use had another input.
        """
        row = await self._db.find(self._scope(caller), FIND, caller.tenant, caller.subject, key)
        if row is not None and row["digest"] != digest:
            raise IdempotencyConflict(key)
        return row["output"] if row is not None else None

    async def claim(self, caller: Caller, key: str, digest: bytes) -> Any | None:
        """Claim a key that `check_key` accepts: return None when it is fresh, else the output of its first use.

        Raises:
            IdempotencyConflict: the first use had another input.
        """
        scope = self._scope(caller)
        if await self._db.execute(scope, CLAIM, caller.tenant, caller.subject, key, digest):
            return None
        row = await self._db.find(scope, FIND, caller.tenant, caller.subject, key)
        if row is None or row["digest"] != digest:
            raise IdempotencyConflict(key)
        return row["output"]

    @asynccontextmanager
    async def begun(self, caller: Caller, key: str, digest: bytes) -> AsyncGenerator[Any | None]:
        """Say that a long write is under way: yield None, or the output of the first use once that has ended.

        Of several at one moment one runs, and the others wait for it. The key of a write that fails may be used again.

        Raises:
            IdempotencyConflict: the first use had another input.
        """
        scope, row = self._scope(caller), (caller.tenant, caller.subject, key)
        while not await self._db.execute(scope, BEGIN, *row, digest, _BEGUN):
            if (output := await self.find(caller, key, digest)) is not None:
                yield output
                return
            await asyncio.sleep(_LOOK_AGAIN_S)
        extending = asyncio.create_task(self._extend(scope, row), context=Context())
        try:
            yield None
        finally:
            extending.cancel()
            await asyncio.shield(asyncio.create_task(self._give_back(scope, row), context=Context()))

    async def _extend(self, scope: Scope, row: tuple[object, ...]) -> None:
        while True:
            await asyncio.sleep(_BEGUN.total_seconds() / 3)
            try:
                await self._db.execute(scope, EXTEND, *row, _BEGUN)
            except UpstreamUnavailable as error:
                _LOG.warning("idempotency.not_extended", reason=error.message)

    async def _give_back(self, scope: Scope, row: tuple[object, ...]) -> None:
        try:
            await self._db.execute(scope, GIVE_BACK, *row)
        except UpstreamUnavailable as error:  # it may be begun again when its time is over
            _LOG.warning("idempotency.not_given_back", reason=error.message)

    async def keep(self, caller: Caller, key: str, output: Any) -> None:
        """Store the output that a repetition will get."""
        await self._db.execute(self._scope(caller), KEEP, caller.tenant, caller.subject, key, output)

    async def claim_all(self, scope: Scope, claims: Sequence[tuple[str, str, bytes]]) -> set[tuple[str, str]]:
        """Claim keys of a tenant, each given with its subject and its digest; return those that are fresh."""
        given = [{"subject": subject, "key": key, "digest": digest.hex()} for subject, key, digest in claims]
        rows = await self._db.fetch(scope, CLAIM_ALL, scope.tenant, document(given))
        return {(subject, key) for subject, key in rows}

    async def keep_all(self, scope: Scope, outputs: Sequence[tuple[str, str, Any]]) -> None:
        """Store the outputs that repetitions will get, each given with its subject and its key."""
        given = [{"subject": subject, "key": key, "output": output} for subject, key, output in outputs]
        await self._db.execute(scope, KEEP_ALL, scope.tenant, document(given))
