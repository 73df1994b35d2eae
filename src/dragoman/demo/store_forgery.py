"""One edit behind the server's back, for the story alone: only who owns the database could make it."""

from typing import Final, LiteralString

from dragoman.infra.db import Database, Scope

_OWNER: Final = "postgres"
FORGE: LiteralString = """
UPDATE audit_records SET body = convert_to(replace(convert_from(body, 'UTF8'), $2, $3), 'UTF8')
WHERE operation = $1"""


async def forge(url: str, operation: str, before: str, after: str) -> int:
    """Put other words into the records of an operation; how many were bent."""
    db = Database(url, role=_OWNER, size=1)
    try:
        return await db.execute(Scope(), FORGE, operation, before, after)
    finally:
        await db.stop()
