"""What tests of identity arrange again and again: a tenant of their own, people, keys, and a look into the database."""
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# The driver has no types.

import asyncio
import secrets
from typing import Any

import asyncpg
import httpx

from tests.harness import Server


def new_tenant(server: Server) -> str:
    """The slug of a tenant that no other test touches."""
    slug = f"t{secrets.token_hex(6)}"
    with server.admin() as platform:
        done(platform.post("/api/tenant", json={"name": "Acme", "slug": slug}))
    return slug


def done(response: httpx.Response) -> Any:
    """The data of an answer that must be a success."""
    assert response.is_success, response.text
    return response.json()["data"]


def invite(admin: httpx.Client, subject: str = "ada", role: str = "viewer") -> dict[str, Any]:
    """A person who was invited and has not come yet."""
    person = {"email": f"{subject}@example.com", "name": subject, "subject": subject, "role": role}
    return done(admin.post("/api/users", json=person))


def join(server: Server, admin: httpx.Client, subject: str = "ada", **more: str) -> dict[str, Any]:
    """A person who was invited and has accepted."""
    person = {"email": f"{subject}@example.com", "name": subject, "subject": subject, "role": "viewer", **more}
    invited = done(admin.post("/api/users", json=person))
    with server.client(invited["invitation"]) as newcomer:
        return done(newcomer.post("/api/users/accept", json={}))["user"]


def status_of(server: Server, credential: str) -> int:
    """What a credential gets that only asks who it is."""
    with server.client(credential) as client:
        return client.get("/api/me").status_code


def database_url(server: Server) -> str:
    """The server's database, as its superuser."""
    return server.database_url


def redis_url(server: Server) -> str:
    """The server's Valkey."""
    return server.redis_url


def beside(server: Server) -> dict[str, str]:
    """For a second server on the same database, Valkey, and keys, with a data directory of its own."""
    return {
        "DRAGOMAN_DATABASE_URL": database_url(server),
        "DRAGOMAN_REDIS_URL": redis_url(server),
        "DRAGOMAN_SECRETS_DIR": str(server.secrets_dir),
    }


def query(server: Server, sql: str, *args: Any) -> list[dict[str, Any]]:
    """Rows past every lock."""

    async def run() -> list[dict[str, Any]]:
        connection = await asyncpg.connect(database_url(server))
        try:
            return [dict(row) for row in await connection.fetch(sql, *args)]
        finally:
            await connection.close()

    return asyncio.run(run())
