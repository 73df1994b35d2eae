"""What stands behind a server in a test: its database, its processes, and the bytes on its wire."""

import asyncio
import os
import re
import signal
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg

from dragoman.infra.ids import new_id
from tests.harness import Server
from tests.patience import PATIENCE_S


def database_url(server: Server, database: str | None = None) -> str:
    """Of the server's PostgreSQL, as its superuser: its own database, or another."""
    return re.sub(r"/\w+\?", f"/{database}?", server.database_url) if database else server.database_url


def sql(server: Server, statement: str, *values: Any, database: str | None = None) -> list[asyncpg.Record]:
    """Run one statement behind the server's back."""

    async def run() -> list[asyncpg.Record]:
        connection = await asyncpg.connect(database_url(server, database))
        try:
            return await connection.fetch(statement, *values)
        finally:
            await connection.close()

    return asyncio.run(run())


@contextmanager
def locked(server: Server, table: str) -> Generator[None]:
    """Nobody else can use the table meanwhile."""
    loop = asyncio.new_event_loop()
    connection = loop.run_until_complete(asyncpg.connect(database_url(server)))
    try:
        transaction = connection.transaction()
        loop.run_until_complete(transaction.start())
        loop.run_until_complete(connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"))
        yield
        loop.run_until_complete(transaction.rollback())
    finally:
        loop.run_until_complete(connection.close())
        loop.close()


def add_tenant(server: Server, *, plan: str = "standard") -> str:
    """A new tenant, by its slug; made past the gate, so that no limit counts it."""
    slug = f"t-{uuid4().hex[:12]}"
    insert = "INSERT INTO tenants (id, slug, name, plan, status) VALUES ($1, $2, $2, $3, 'active')"
    sql(server, insert, new_id(), slug, plan)
    return slug


def metrics(server: Server) -> dict[str, float]:
    """Every series and its value."""
    with server.client(verify=False) as client:
        lines = client.get("/metrics").text.splitlines()
    rows = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in rows}


def processes_of(server: Server) -> dict[int, str]:
    """The command lines of all living processes that belong to this data directory."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            environment = (entry / "environ").read_bytes().decode(errors="replace")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            mine = f"DRAGOMAN_DATA_DIR={server.data_dir}\0" in environment and "dragoman" in command
            if state != "Z" and (mine or str(server.data_dir) in command):
                found[int(entry.name)] = command
    return found


def pid_of(server: Server, service: str) -> int:
    """Of the embedded server that runs now: `postgres` or `valkey`."""
    file = {"postgres": "postgres/postmaster.pid", "valkey": "valkey/valkey.pid"}[service]
    return int((server.data_dir / file).read_text().split()[0])


def children_of(server: Server) -> list[int]:
    """The processes that serve, when there are several."""
    return [pid for pid, command in processes_of(server).items() if "serve-child" in command]


def resident_bytes(server: Server) -> int:
    """The memory that the process of the server has at present."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


@contextmanager
def hung(pid: int) -> Generator[None]:
    """A process that is there and does nothing, with all processes below it."""
    family = [pid, *(child for child in map(int, _children(pid)))]
    for member in family:
        os.kill(member, signal.SIGSTOP)
    try:
        yield
    finally:
        for member in family:
            with suppress(ProcessLookupError):
                os.kill(member, signal.SIGCONT)


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def connect(server: Server) -> socket.socket:
    """A bare connection to the server."""
    match = re.fullmatch(r"https?://(.+):(\d+)", server.url)
    assert match is not None
    return socket.create_connection((match[1], int(match[2])), timeout=PATIENCE_S)


def exchange(server: Server, *pieces: bytes) -> bytes:
    """Send these bytes and return all that comes back until the server closes."""
    with connect(server) as wire:
        for piece in pieces:
            wire.sendall(piece)
        return read_all(wire)


def read_all(wire: socket.socket) -> bytes:
    """Until the other side closes, politely or not."""
    received = b""
    with suppress(ConnectionResetError):
        while piece := wire.recv(65_536):
            received += piece
    return received


def records_of(server: Server, resource: str | None, **filters: str) -> list[dict[str, Any]]:
    """The latest audit records about a resource, or about any."""
    with server.admin() as client:
        answer = client.get("/api/audit", params={"limit": 200, **filters})
    assert answer.status_code == 200, answer.text
    return [one for one in answer.json()["data"] if resource is None or one.get("resource") == resource]
