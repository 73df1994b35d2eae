"""Which keys a database was first used with: a process that comes with others must not go on."""

from collections.abc import Mapping
from typing import LiteralString

from dragoman.infra.db.database import Database, Scope

NOTE: LiteralString = "INSERT INTO installation (name, fingerprint) VALUES ($1, $2) ON CONFLICT DO NOTHING"
FIND: LiteralString = "SELECT fingerprint FROM installation WHERE name = $1"


async def find_foreign_key(db: Database, fingerprints: Mapping[str, str]) -> str | None:
    """Note the fingerprints on first use; the name of a key that is not the one noted, or None when all are."""
    for name, fingerprint in fingerprints.items():
        await db.execute(Scope(), NOTE, name, fingerprint)
        row = await db.find(Scope(), FIND, name)
        if row is None or row["fingerprint"] != fingerprint:
            return name
    return None
