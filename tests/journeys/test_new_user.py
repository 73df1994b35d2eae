"""The first quarter of an hour with Dragoman, as the README tells it."""

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import httpx
import pytest

from tests.harness import Server, data_dir, wait_for
from tests.patience import PATIENCE_S

# A person's second command finds what the first one compiled, even where the tests' own environment forbids it.
COMPILED = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(Path(gettempdir(), "dragoman-tests-compiled"))}


@pytest.fixture(scope="module")
def fresh() -> Iterator[Server]:
    """`make run` at the terminal of a machine that never saw it."""
    with Server(COMPILED, terminal=True) as running:
        yield running


def banner_of(server: Server) -> tuple[str, str]:
    """The address and the token that a person reads from the screen."""
    said = shown(server.screen)
    url = re.search(r"is ready at (http://\S+)", said)
    token = re.search(r"^export DRAGOMAN_TOKEN=(\S+)$", said, re.MULTILINE)
    assert url is not None
    assert token is not None
    return url[1], token[1]


def shown(screen: Path) -> str:
    """What is on a screen, or in a file, once the banner is there as a whole."""
    said = ""

    def whole() -> bool:
        nonlocal said
        said = screen.read_text()
        return "Ctrl-C stops it." in said

    wait_for(whole, "the banner")
    return re.sub(r"\x1b\[[0-9;]*m", "", said)


def snippet_of(said: str) -> dict[str, Any]:
    """The configuration for MCP clients."""
    line = next(line for line in said.splitlines() if line.startswith('  {"mcpServers"'))
    return json.loads(line)["mcpServers"]["dragoman"]


def me(url: str, credential: str) -> dict[str, Any]:
    """Who the server takes the bearer for."""
    answer = httpx.get(f"{url}/api/me", headers={"authorization": credential}, timeout=PATIENCE_S)
    return answer.json()["data"]


def test_the_banner_has_an_address_and_a_token_that_work_and_commands_that_can_be_pasted(fresh: Server) -> None:
    url, token = banner_of(fresh)

    said = shown(fresh.screen).splitlines()
    pasted = next(line for line in said if line.startswith("  curl"))
    answer = subprocess.run(
        ["sh", "-c", f"{pasted} --silent"],
        env=fresh.environment | {"DRAGOMAN_TOKEN": token},
        capture_output=True,
        check=True,
    )

    person = me(url, f"Bearer {token}")
    assert (person["tenant"], person["subject"], person["roles"]) == ("demo", "admin", ["super_admin"])
    assert json.loads(answer.stdout)["data"] == person
    # Its data is not where the command line would look for it.
    assert f"export DRAGOMAN_URL={url}" in said


def test_an_mcp_client_gets_a_key_of_role_agent_that_the_next_start_shows_again(at: Path) -> None:
    with Server(COMPILED, at=at, terminal=True) as first:
        given = snippet_of(shown(first.screen))
        holder = me(first.url, given["headers"]["Authorization"])
        at_first = first.url
    with Server(COMPILED, at=at, terminal=True) as second:
        again = snippet_of(shown(second.screen))
        listed = json.loads(second.shell("key", "list", "--json").stdout)["items"]
        second.shell("key", "revoke", listed[0]["id"])
    with Server(COMPILED, at=at, terminal=True) as third:
        fresh_key = snippet_of(shown(third.screen))["headers"]["Authorization"]
        holder_of_fresh = me(third.url, fresh_key)

    assert given["url"] == f"{at_first}/mcp"
    assert (holder["roles"], holder["type"], holder["person"]) == (["agent"], "agent", False)
    assert again["headers"] == given["headers"]
    assert [one["name"] for one in listed] == ["mcp-client"]
    assert fresh_key != given["headers"]["Authorization"]
    assert holder_of_fresh["roles"] == ["agent"]


def test_no_credential_is_printed_to_a_file_or_by_a_server_for_other_machines(at: Path) -> None:
    with Server(COMPILED, at=at) as written:
        to_a_file = shown(written.log)
    proxied = {"DRAGOMAN_HOST": "0.0.0.0", "DRAGOMAN_BEHIND_TLS_PROXY": "true"}
    with Server(COMPILED | proxied, at=at, terminal=True) as outward:
        for_others = shown(outward.screen)

    for said in (to_a_file, for_others):
        assert re.search(r"eyJ|dgm_", said) is None
        assert " token --tenant demo" in said
        assert snippet_of(said)["headers"] == {"Authorization": "Bearer <key>"}
    assert not (at / "mcp-client.key").exists()


@pytest.mark.req("GW-004", "GW-006")
def test_from_a_tenant_of_ones_own_to_a_trail_that_an_auditor_can_check(fresh: Server, tmp_path: Path) -> None:
    _, token = banner_of(fresh)
    made = fresh.shell(
        "tenant", "create", "--name", "Acme", "--slug", "acme", "--json", environment={"DRAGOMAN_TOKEN": token}
    )
    admin = {"DRAGOMAN_TOKEN": fresh.shell("token", "--tenant", "acme", "--role", "org_admin").stdout.strip()}

    invite = ("user", "invite", "--email", "ada@example.com", "--name", "Ada", "--role", "viewer", "--json")
    invited = json.loads(fresh.shell(*invite, environment=admin).stdout)
    accepted = json.loads(
        fresh.shell("user", "accept", "--json", environment={"DRAGOMAN_TOKEN": invited["invitation"]}).stdout
    )
    ada = {"DRAGOMAN_TOKEN": accepted["token"]}

    refused = fresh.shell("user", "invite", "--email", "bo@example.com", "--name", "Bo", environment=ada)
    listed = json.loads(fresh.shell("audit", "list", "--json", environment=admin).stdout)["items"]
    verified = fresh.shell("audit", "verify", environment=admin)

    assert (made.returncode, json.loads(made.stdout)["slug"]) == (0, "acme")
    assert json.loads(fresh.shell("whoami", "--json", environment=ada).stdout)["roles"] == ["viewer"]
    assert refused.returncode == 4
    assert refused.stderr.startswith("UNAUTHORIZED")
    assert [(item["operation"], item["outcome"]) for item in listed] == [
        ("user.invite", "refused"),
        ("user.accept", "done"),
        ("user.invite", "done"),
    ]
    assert (verified.returncode, verified.stdout[:2]) == (0, "OK")

    trail, verifier = tmp_path / "trail.jsonl", tmp_path / "verify_audit.py"
    fresh.shell("audit", "export", str(trail), environment=admin)
    verifier.write_text(fresh.shell("audit", "verifier").stdout)

    assert standalone(verifier, trail).returncode == 0
    trail.write_text(trail.read_text().replace('"seq": 2', '"seq": 3', 1))
    assert standalone(verifier, trail).returncode == 1


def standalone(verifier: Path, trail: Path) -> subprocess.CompletedProcess[str]:
    """As an auditor runs it: without this package (-I, -S) and without the server."""
    return subprocess.run(
        [sys.executable, "-I", "-S", str(verifier), str(trail)], capture_output=True, text=True, check=False
    )


def test_a_refused_viewer_is_403_over_http_too(fresh: Server) -> None:
    with fresh.client(fresh.token(role="viewer", user="viv")) as client:
        refused = client.post("/api/users", json={"email": "x@example.com", "name": "X"})

    assert (refused.status_code, refused.json()["code"]) == (403, "UNAUTHORIZED")


@pytest.fixture
def at() -> Iterator[Path]:
    """A data directory that outlives its server."""
    directory = data_dir()
    yield directory
    shutil.rmtree(directory.parent)


@pytest.mark.req("A2A-RT-2")
def test_ctrl_c_ends_it_and_the_next_start_has_everything_and_heeds_its_new_limits(at: Path) -> None:
    config = at.parent / "dragoman.toml"
    with Server(COMPILED, at=at, terminal=True) as first:
        kept = banner_of(first)[1]
        first.shell("tenant", "create", "--name", "Acme", "--slug", "acme")
        status = first.stop(signal.SIGINT)

    config.write_text("[limits]\nuser_per_min = 1\n")
    environment = {**COMPILED, "DRAGOMAN_CONFIG": str(config), "DRAGOMAN_LIMITS__USER_PER_MIN": ""}
    with Server(environment, at=at) as second:
        shown = second.shell("tenant", "show", "acme", environment={"DRAGOMAN_TOKEN": kept})
        # Two more than one a minute, whenever the minute turns.
        asked = [second.shell("whoami", "--json") for _ in range(3)]

    limited = [(result.returncode, json.loads(result.stdout)["error"]) for result in asked if result.returncode]
    assert (status, shown.returncode) == (0, 0)
    assert {(code, error["code"]) for code, error in limited} == {(1, "RATE_LIMITED")}
    assert all(error["details"]["retry_after_s"] > 0 for _, error in limited)
    assert all("try again in" in error["message"] for _, error in limited)
