"""Keys that make a repeated write harmless: claimed first, in the same transaction as what they protect."""

from collections.abc import Callable
from typing import Any, LiteralString

from dragoman.context import Caller
from dragoman.errors import IdempotencyConflict, InvalidInput
from dragoman.infra.db.database import Database
from dragoman.infra.db.pool import Scope, scope_of

# A second claim of a key that another transaction holds waits until that one ends: then it finds the row, or takes it.
CLAIM: LiteralString = """
INSERT INTO idempotency_keys (tenant_id, scope, key, digest) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING"""
FIND: LiteralString = "SELECT digest, output FROM idempotency_keys WHERE tenant_id = $1 AND scope = $2 AND key = $3"
KEEP: LiteralString = "UPDATE idempotency_keys SET output = $4 WHERE tenant_id = $1 AND scope = $2 AND key = $3"


_LONGEST_KEY = 200


def check_key(key: str) -> None:
    """Refuse what is not fit to be a key.

    Raises:
        InvalidInput: it is not.
    """
    if not 1 <= len(key) <= _LONGEST_KEY or not (key.isascii() and key.isprintable()):
        raise InvalidInput.of("Idempotency-Key", f"must be 1 to {_LONGEST_KEY} printable ASCII characters")


class IdempotencyKeys:
    """Use inside a unit of work: only a commit consumes a key. A key belongs to the subject that sent it."""

    def __init__(self, db: Database, *, scope: Callable[[Caller], Scope] = scope_of) -> None:
        self._db = db
        self._scope = scope

    async def find(self, caller: Caller, key: str, digest: bytes) -> Any | None:
        """Return what the first use of the key gave, or None when there was none that came to its end.

        Raises:
            IdempotencyConflict: the first use had another input.
        """
        row = await self._db.find(self._scope(caller), FIND, caller.tenant, caller.subject, key)
        if row is not None and row["digest"] != digest:
            raise IdempotencyConflict(key)
        return row["output"] if row is not None else None

    async def claim(self, caller: Caller, key: str, digest: bytes) -> Any | None:
        """Return None when the key is fresh and now claimed; else what the first use of it gave.

        Raises:
            InvalidInput: it is not fit to be a key.
            IdempotencyConflict: the first use had another input.
        """
        check_key(key)
        scope = self._scope(caller)
        if await self._db.execute(scope, CLAIM, caller.tenant, caller.subject, key, digest):
            return None
        row = await self._db.find(scope, FIND, caller.tenant, caller.subject, key)
        if row is None or row["digest"] != digest:
            raise IdempotencyConflict(key)
        return row["output"]

    async def keep(self, caller: Caller, key: str, output: Any) -> None:
        """Keep what a repetition will be given."""
        await self._db.execute(self._scope(caller), KEEP, caller.tenant, caller.subject, key, output)
