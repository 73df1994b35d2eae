"""The agent gateway as docs/gateway.md lets a person try it: an authority, a server, an agent, and its end."""

import json
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness import InProcess, Server, wait_for
from tests.patience import PATIENCE_S
from tests.tenants import beside

pytestmark = pytest.mark.req("GW-014")


def ca(server: Server, directory: Path, *words: str) -> dict[str, Any]:
    done = server.cli("ca", *words, "--dir", str(directory), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_authority_an_agent_and_its_revocation_are_commands(server: Server, tmp_path: Path) -> None:
    home = tmp_path / "ca"
    made = ca(server, home, "init")
    serving = ca(server, home, "issue", "server", "--server", "localhost", "--server", "127.0.0.1")
    agent = ca(server, home, "issue", "finops-acme", "--days", "30")
    again = server.cli("ca", "issue", "finops-acme", "--dir", str(home))
    registered = server.cli(
        "a2a-agent",
        "register",
        "--name",
        "finops-acme",
        "--certificate",
        Path(agent["certificate"]).read_text(),
        "--json",
    )
    key = json.loads(registered.stdout)["secret"]
    context = ssl.create_default_context(cafile=made["certificate"])
    context.load_cert_chain(agent["certificate"], agent["key"])
    settings = {
        "DRAGOMAN_TLS_CERT": serving["certificate"],
        "DRAGOMAN_TLS_KEY": serving["key"],
        "DRAGOMAN_TLS_CLIENT_CA": made["certificate"],
        "DRAGOMAN_GATEWAY__CRL": made["revocations"],
        "DRAGOMAN_LIMITS__AGENT_PER_MIN": "100000",
    }

    with (
        InProcess(beside(server) | settings) as gateway,
        httpx.Client(base_url=gateway.url, verify=context, timeout=PATIENCE_S, headers={"x-api-key": key}) as client,
    ):

        def status() -> int:
            asked = {"tool": "identity_show", "arguments": {}}
            return client.post("/a2a/v1/query", json=asked).status_code

        before = status()
        ca(server, home, "revoke", "finops-acme")
        wait_for(lambda: status() == 401, "the refusal")

    assert (again.returncode, before) == (2, 200)
    assert [(one["name"], one["revoked_at"] is None) for one in ca_list(server, home)] == [
        ("server", True), ("finops-acme", False),
    ]  # fmt: skip
    for one in (home / "ca.key", Path(agent["key"])):
        assert one.stat().st_mode & 0o077 == 0


def ca_list(server: Server, home: Path) -> list[dict[str, Any]]:
    return json.loads(server.cli("ca", "list", "--dir", str(home), "--json").stdout)
