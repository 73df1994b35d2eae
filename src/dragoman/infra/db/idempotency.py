"""Idempotency keys: claimed first, in the transaction of the write that they protect."""

from collections.abc import Callable
from typing import Any, LiteralString

from dragoman.context import Caller
from dragoman.errors import IdempotencyConflict, InvalidInput
from dragoman.infra.db.database import Database
from dragoman.infra.db.pool import Scope, scope_of

# A second claim of a key waits until the transaction that holds it ends; then it finds the row, or inserts it.
CLAIM: LiteralString = """
INSERT INTO idempotency_keys (tenant_id, scope, key, digest) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING"""
FIND: LiteralString = "SELECT digest, output FROM idempotency_keys WHERE tenant_id = $1 AND scope = $2 AND key = $3"
KEEP: LiteralString = "UPDATE idempotency_keys SET output = $4 WHERE tenant_id = $1 AND scope = $2 AND key = $3"


_LONGEST_KEY = 200


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

    async def keep(self, caller: Caller, key: str, output: Any) -> None:
        """Store the output that a repetition will get."""
        await self._db.execute(self._scope(caller), KEEP, caller.tenant, caller.subject, key, output)
