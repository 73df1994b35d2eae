"""The in-process server, as users of Dragoman test with it."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.infra.config import ConfigError
from dragoman.testing import running
from tests.harness import wait_for


def test_two_servers_in_one_process_share_neither_data_nor_logs() -> None:
    with running() as first, running() as second:
        with first.admin() as admin:
            admin.post("/api/tenant", json={"name": "Acme", "slug": "acme"}).raise_for_status()
            mine = [tenant["slug"] for tenant in admin.get("/api/tenant").json()["data"]]
        with second.admin() as admin:
            theirs = [tenant["slug"] for tenant in admin.get("/api/tenant").json()["data"]]
            stranger = admin.get("/api/me", headers={"authorization": f"Bearer {first.token()}"})

        said = [[line["message"] for line in server.log_lines()] for server in (first, second)]

    assert (sorted(mine), theirs, stranger.status_code) == (["acme", "demo"], ["demo"], 401)
    assert ("POST /api/tenant 201" in said[0], "POST /api/tenant 201" in said[1]) == (True, False)
    assert "GET /api/me 401" in said[1]


def test_a_server_beside_another_has_its_data_and_takes_its_tokens() -> None:
    with running() as first:
        beside = {
            "DRAGOMAN_DATABASE_URL": first.database_url,
            "DRAGOMAN_REDIS_URL": first.redis_url,
            "DRAGOMAN_SECRETS_DIR": str(first.settings.secrets_path),
        }
        with running(beside) as second, first.client(first.token()) as here, second.client(first.token()) as there:
            made = here.post("/api/memories", json={"content": "Oolong at nine."}).json()["data"]["memory_id"]
            found = there.post("/api/memories/search", json={"query": "oolong"}).json()["data"]["results"]

    assert [hit["memory_id"] for hit in found] == [made]


def test_refusals_are_in_the_security_stream_of_the_server_that_refused() -> None:
    with running() as first, running() as second:
        with first.client("made-up") as stranger:
            stranger.get("/api/me")

        assert [event["event"] for event in first.security_events()] == ["credentials_rejected"]
        assert second.security_events() == []


async def test_a_server_can_be_started_inside_a_loop() -> None:
    with running() as server, server.client(server.token()) as client:
        answer = await asyncio.to_thread(client.get, "/api/me")

    assert answer.status_code == 200


def test_a_wrong_setting_is_said_at_the_start() -> None:
    with pytest.raises(ConfigError, match="DRAGOMAN_TASKS__LEASE_S"), running({"DRAGOMAN_TASKS__LEASE_S": "soon"}):
        pass


def test_postgresql_and_valkey_end_with_their_last_user_however_it_ends() -> None:
    program = (
        "import os, signal; from dragoman.testing import shared_services; "
        "print(shared_services().database_url, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )

    killed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False, env={"PATH": ""}
    )

    directory = Path(killed.stdout.strip().partition("host=")[2]).parents[1]
    assert directory.name.startswith("dgt-shared-"), killed.stderr
    wait_for(lambda: not directory.exists(), "the end of the shared servers")
