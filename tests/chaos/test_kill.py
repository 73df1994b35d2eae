"""However a server ends, it leaves no process behind and loses nothing that it acknowledged."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.backstage import children_of, locked, metrics, processes_of, sql
from tests.harness import DRAGOMAN, Server, data_dir, wait_for
from tests.patience import PATIENCE_S


@pytest.fixture
def place() -> Iterator[Path]:
    """A data directory that outlives its servers."""
    path = data_dir()
    yield path
    subprocess.run(["rm", "-rf", str(path.parent)], check=True)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_killed_server_leaves_no_process_and_keeps_what_it_acknowledged(place: Path, workers: str) -> None:
    first = Server({}, "--workers", workers, at=place).start()
    with first.admin() as admin:
        assert admin.post("/api/tenant", json={"name": "Kept", "slug": "kept"}).status_code == 201
    assert len(processes_of(first)) >= 3

    first.stop(signal.SIGKILL)

    with Server({}, "--workers", workers, at=place) as second, second.admin() as admin:
        assert admin.get("/api/tenant/kept").json()["data"]["slug"] == "kept"
        assert admin.post("/api/audit/verify", json={}).json()["data"]["ok"] is True
        # A session that was begun this moment is called like the server that it came from.
        wait_for(lambda: sum("postgres -D" in one for one in processes_of(second).values()) == 1, "one PostgreSQL")
    wait_for(lambda: processes_of(first) == {}, "the end of every process")


@pytest.mark.parametrize(("workers", "number"), [("1", signal.SIGTERM), ("2", signal.SIGINT)])
def test_a_stopping_server_answers_what_it_has_begun_seals_all_and_exits_cleanly(
    place: Path, workers: str, number: signal.Signals
) -> None:
    """A Ctrl-C reaches every process of the terminal's group at once, a SIGTERM the first one alone."""
    server = Server({}, "--workers", workers, at=place)
    with server, ThreadPoolExecutor(1) as pool, server.admin() as admin:
        assert admin.post("/api/tenant", json={"name": "Sealed", "slug": "sealed"}).status_code == 201
        with locked(server, "users"):
            slow = pool.submit(admin.get, "/api/users")
            wait_for(lambda: metrics(server)["dragoman_open_requests"] == 2, "the request to be under way")
            for pid in [server.pid, *(children_of(server) if number is signal.SIGINT else [])]:
                os.kill(pid, number)
            wait_for(lambda: "Shutting down" in server.log.read_text(), "the drain")
            assert not slow.done()
            (row,) = sql(server, "SELECT count(*) FROM audit_records")
        answer = slow.result(PATIENCE_S)
        status = server.stop(number)

    assert answer.status_code == 200
    assert status == 0
    wait_for(lambda: processes_of(server) == {}, "the end of every process")
    assert not (place / "server.json").exists()
    heads = [json.loads(line) for line in (place / "audit" / "heads.jsonl").read_text().splitlines()]
    assert heads[-1]["seq"] == row["count"] > 0
    assert "Traceback" not in server.log.read_text()


def test_a_second_server_on_the_same_data_or_port_says_who_is_there(tmp_path: Path) -> None:
    with Server() as server:
        port, pid = server.url.rpartition(":")[2], server.pid
        same_data = start({**server.environment, "DRAGOMAN_PORT": "0"})
        same_port = start({**server.environment, "DRAGOMAN_DATA_DIR": str(tmp_path / "d"), "DRAGOMAN_PORT": port})

    assert same_data.returncode == 1
    assert same_port.returncode == 1
    assert f"already running (pid {pid})" in same_data.stderr
    assert f"127.0.0.1:{port}" in same_port.stderr
    assert "DRAGOMAN_PORT" in same_port.stderr
    assert "Traceback" not in same_data.stderr + same_port.stderr


def start(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A server that should not start."""
    return subprocess.run(
        [str(DRAGOMAN), "serve"], env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
