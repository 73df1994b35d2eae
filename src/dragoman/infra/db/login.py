"""The login of a server: it works in the roles of the application and has no rights of its own."""
# pyright: reportUnknownVariableType=false
# The driver has no types.

from collections.abc import Sequence
from typing import LiteralString

import asyncpg

from dragoman.infra.db.database import CORE_ROLE, Database, Scope
from dragoman.infra.db.failures import translating

LOGIN_ROLE = "dragoman_login"
# NOINHERIT: it has what the roles may do only in the role that a connection chose at its start.
MAKE: LiteralString = """
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'dragoman_login') THEN
        CREATE ROLE dragoman_login LOGIN NOINHERIT;
    END IF;
    IF NOT (pg_has_role('dragoman_login', 'dragoman_app', 'MEMBER')
            AND pg_has_role('dragoman_login', 'dragoman_core', 'MEMBER')) THEN
        GRANT dragoman_app, dragoman_core TO dragoman_login;
    END IF;
END $$"""
EXCESS: LiteralString = """
SELECT r.rolsuper OR r.rolbypassrls AS exempt,
       EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
               AND pg_has_role(session_user, c.relowner, 'MEMBER')) AS owner,
       pg_has_role(session_user, $1, 'USAGE') AS inherits
FROM pg_roles r WHERE r.rolname = session_user"""


async def make_login(url: str) -> None:
    """Make the login of the embedded server, as its superuser; safe to repeat.

    Raises:
        UpstreamUnavailable: PostgreSQL does not answer.
    """
    with translating():
        connection = await asyncpg.connect(url, timeout=10)
        try:
            await connection.execute(MAKE)
        finally:
            await connection.close()


async def find_excess(db: Database) -> Sequence[str]:
    """Say what the login of a database may do that a server does not need, and with what it could see all tenants."""
    row = await db.find(Scope(), EXCESS, CORE_ROLE)
    if row is None:
        return []
    if row["exempt"]:
        return ["it is a superuser, or has BYPASSRLS"]
    found = ["it owns tables, or is a member of their owner"] if row["owner"] else []
    if row["inherits"]:
        found.append(f"it inherits {CORE_ROLE}: make it NOINHERIT, or grant the role WITH INHERIT FALSE")
    return found
