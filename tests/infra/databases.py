"""Databases of a test's own, in the PostgreSQL of the running server."""

import asyncio
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import asyncpg


@contextmanager
def new_database(cluster_url: str, *, owner: str | None = None) -> Generator[str]:
    """An empty database; what is given and what it gives are superuser addresses."""
    name = f"test_{uuid4().hex[:12]}"
    asyncio.run(superuser(cluster_url, f"CREATE DATABASE {name}" + (f" OWNER {owner}" if owner else "")))
    try:
        yield re.sub(r"/\w+\?", f"/{name}?", cluster_url)
    finally:
        asyncio.run(superuser(cluster_url, f"DROP DATABASE {name} WITH (FORCE)"))


async def superuser(url: str, statement: str, *values: Any) -> list[asyncpg.Record]:
    """Run one statement past every lock."""
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(statement, *values)
    finally:
        await connection.close()


async def kill_connections(url: str) -> int:
    """End every other connection to this database, as an administrator might."""
    others = "datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    return len(await superuser(url, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"))
