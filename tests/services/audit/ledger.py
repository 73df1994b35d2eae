"""A tenant with a chain of its own on a running server: written at the door, looked at and tampered with behind it."""
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# The driver has no types.

import asyncio
import json
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import httpx

from dragoman.context import Caller, PrincipalType, Role, TenantId
from dragoman.infra.auth.keyring import Keyring
from dragoman.services.audit.bundle import verifier_source
from tests.harness import Server, wait_for
from tests.patience import PATIENCE_S


def database_url(server: Server) -> str:
    """Of the embedded PostgreSQL, as its superuser."""
    return server.database_url


def run_sql(server: Server, statement: str, *values: Any, role: str = "postgres") -> Sequence[Any]:
    """One statement behind the server's back."""

    async def run() -> Sequence[Any]:
        connection = await asyncpg.connect(database_url(server))
        try:
            await connection.execute(f"SET ROLE {role}")
            return await connection.fetch(statement, *values)
        finally:
            await connection.close()

    return asyncio.run(run())


class Door:
    """A client that keeps no connection open, so that nothing has to be closed."""

    def __init__(self, server: Server, token: str) -> None:
        self._server = server
        self._token = token

    def get(self, path: str, **options: Any) -> httpx.Response:
        """Ask."""
        with self._server.client(self._token, verify=False) as client:
            return client.get(path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        """Tell."""
        with self._server.client(self._token, verify=False) as client:
            return client.post(path, **options)


class Ledger:
    """One tenant's trail."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.slug = f"audit-{secrets.token_hex(5)}"
        with server.admin() as admin:
            made = admin.post("/api/tenant", json={"name": "Audited", "slug": self.slug})
        assert made.status_code == 201, made.text
        self.tenant = UUID(made.json()["data"]["id"])
        self.client = Door(server, server.token(tenant=self.slug))

    @property
    def caller(self) -> Caller:
        """Someone of this tenant."""
        roles = frozenset({Role.ORG_ADMIN})
        return Caller(TenantId(self.tenant), self.slug, "admin", PrincipalType.USER, roles, "test", 0.0)

    @property
    def heads_file(self) -> Path:
        """Where the server publishes heads."""
        return self.server.data_dir / "audit" / "heads.jsonl"

    @property
    def public_key(self) -> str:
        """The signer's."""
        return Keyring.open(self.server.data_dir / "secrets").audit.public_key().public_bytes_raw().hex()

    @property
    def mac_key(self) -> bytes:
        """What an honest writer has."""
        return Keyring.open(self.server.data_dir / "secrets").audit_mac

    def write(self, count: int = 1) -> None:
        """As many operations as records."""
        for _ in range(count):
            answer = self.client.post("/api/keys", json={"name": secrets.token_hex(4)})
            assert answer.status_code == 201, answer.text

    def sql(self, statement: str, *values: Any) -> Sequence[Any]:
        """As the superuser; $1 is the tenant."""
        return run_sql(self.server, statement, self.tenant, *values)

    def links(self) -> list[Any]:
        """The chain as it is stored."""
        query = "SELECT seq, record_id, hash FROM audit_links WHERE tenant_id = $1 ORDER BY seq"
        return [(row["seq"], row["record_id"], row["hash"]) for row in self.sql(query)]

    def wait_sealed(self, count: int) -> None:
        """Until the chain has so many links, and its head is outside too."""

        def published() -> bool:
            wanted = f'"tenant":"{self.tenant}","seq":{count},'
            return self.heads_file.exists() and wanted in self.heads_file.read_text()

        wait_for(lambda: len(self.links()) == count and published(), f"{count} seals")

    def records(self, **filters: Any) -> list[dict[str, Any]]:
        """As the server lists them, newest first."""
        answer = self.client.get("/api/audit", params={"limit": 200, **filters})
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def verify(self, **given: Any) -> dict[str, Any]:
        """What the server says."""
        answer = self.client.post("/api/audit/verify", json=given)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def verify_by_command(self) -> subprocess.CompletedProcess[str]:
        """What `dragoman audit verify` says."""
        return self.server.cli("audit", "verify", "--tenant", self.slug)

    def export(self) -> Path:
        """A file made by `dragoman audit export`."""
        file = self.server.data_dir.parent / f"{secrets.token_hex(6)}.jsonl"
        done = self.server.cli("audit", "export", str(file), "--tenant", self.slug)
        assert done.returncode == 0, done.stdout + done.stderr
        return file

    def exported(self) -> list[dict[str, Any]]:
        """The lines of an export, as the command writes them."""
        piece = self._piece()
        about = {name: piece[name] for name in ("tenant", "public_key", "made_at", "tables")}
        rows = self._pieces("rows", 0)
        tail = [record for piece in self._pieces("tail", piece["head"]["seq"] if piece["head"] else 0)
                for record in piece["records"]]  # fmt: skip
        found = [row for piece in rows for row in piece["rows"]]
        return [
            {"type": "export", **about},
            *({"type": "record", **record} for record in piece["records"]),
            *([{"type": "head", **piece["head"]}] if piece["head"] else []),
            *({"type": "tail", **record} for record in tail),
            *({"type": "row", **row} for row in found),
            *({"type": "broken", "key": one.pop("id"), **one} for piece in rows for one in piece["broken"]),
            {"type": "end", "rows": len(found), "tail": len(tail)},
        ]

    def export_lines(self) -> list[bytes]:
        """A fresh export, as a file has it."""
        return [json.dumps(line).encode() for line in self.exported()]

    def verify_alone(self, *arguments: str, **header: str) -> subprocess.CompletedProcess[str]:
        """What the standalone verifier says of a fresh export; with another header, as if it had been made so."""
        first, *lines = self.exported()
        text = "\n".join(json.dumps(line) for line in [first | header, *lines])
        return run_verifier("-", "--public-key", self.public_key, *arguments, given=text.encode())

    def _pieces(self, part: str, after: int) -> list[dict[str, Any]]:
        pieces: list[dict[str, Any]] = []
        cursor: str | None = ""
        while cursor is not None:
            pieces.append(self._piece(part=part, after=after, cursor=cursor))
            cursor, after = pieces[-1]["next_cursor"], pieces[-1]["next_after"] or after
        return pieces

    def _piece(self, **given: Any) -> dict[str, Any]:
        answer = self.client.get("/api/audit/export", params=given)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]


@cache
def verifier() -> Path:
    """The standalone verifier, in a file by itself."""
    file = Path(tempfile.mkdtemp()) / "verify_audit.py"
    file.write_text(verifier_source(), encoding="utf-8")
    return file


def run_verifier(*arguments: str, given: bytes | None = None) -> subprocess.CompletedProcess[str]:
    """The file alone: no package, no site, no environment."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(verifier()), *arguments],
        input=given,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
