"""The API key for MCP clients of this machine: of role agent, made once and kept in the data directory."""

import os
from pathlib import Path
from typing import Final

from dragoman.doors.cli.client import Client
from dragoman.doors.cli.endings import Refused
from dragoman.doors.cli.session import KEYBOARD_TTL_S, binding_of, mint_token
from dragoman.infra.auth.tokens import Grant
from dragoman.infra.config import Settings

_FILE: Final = "mcp-client.key"
_HOLDER: Final = {"name": "mcp-client", "principal_type": "agent", "role": "agent"}


def client_key(settings: Settings, url: str, tenant: str) -> str:
    """Return the key that an earlier start has made, or a new one where that is gone or no longer accepted.

    Raises:
        Ending: the server does not answer, or refuses to make a key.
    """
    path = settings.data_dir / _FILE
    kept = _read(path)
    if kept and _is_accepted(Client(url, kept, trusted_cert=settings.tls_cert)):
        return kept
    token = mint_token(settings, Grant(tenant, "admin", ["super_admin"]), ttl_s=KEYBOARD_TTL_S)
    made = Client(url, token, trusted_cert=settings.tls_cert).call(binding_of("key.create"), _HOLDER)
    secret = str(made["data"]["secret"])
    _write(path, secret)
    return secret


def _is_accepted(client: Client) -> bool:
    try:
        client.call(binding_of("identity.show"), {})
    except Refused as error:
        return error.problem.get("status") != 401
    return True


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return None


def _write(path: Path, secret: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{secret}\n")
    fresh.rename(path)
