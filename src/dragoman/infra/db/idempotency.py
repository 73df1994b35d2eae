"""Keys that make a repeated write harmless: claimed first, in the same transaction as what they protect."""

from typing import Any, LiteralString

from dragoman.errors import IdempotencyConflict, InvalidInput
from dragoman.infra.db.database import Database, Scope

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
    """Use inside a unit of work: only a commit consumes a key."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def find(self, scope: Scope, holder: str, key: str, digest: bytes) -> Any | None:
        """What the first use of the key gave, or None when there was none that came to its end.

        Raises:
            IdempotencyConflict: the first use had another input.
        """
        row = await self._db.find(scope, FIND, scope.tenant, holder, key)
        if row is not None and row["digest"] != digest:
            raise IdempotencyConflict(key)
        return row["output"] if row is not None else None

    async def claim(self, scope: Scope, holder: str, key: str, digest: bytes) -> Any | None:
        """None when the key is fresh and now ours; else what the first use of it gave.

        Raises:
            InvalidInput: it is not fit to be a key.
            IdempotencyConflict: the first use had another input.
        """
        check_key(key)
        if await self._db.execute(scope, CLAIM, scope.tenant, holder, key, digest):
            return None
        row = await self._db.find(scope, FIND, scope.tenant, holder, key)
        if row is None or row["digest"] != digest:
            raise IdempotencyConflict(key)
        return row["output"]

    async def keep(self, scope: Scope, holder: str, key: str, output: Any) -> None:
        """What a repetition will be given."""
        await self._db.execute(scope, KEEP, scope.tenant, holder, key, output)
