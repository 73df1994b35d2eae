"""What a killed worker had is performed by another one."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.chaos.outpost import Outpost
from tests.harness import Server, data_dir, wait_for
from tests.services.tasks.conftest import with_workers
from tests.services.tasks.envelopes import envelope


@pytest.fixture
def place() -> Iterator[Path]:
    """A data directory that outlives its servers."""
    path = data_dir()
    yield path
    subprocess.run(["rm", "-rf", str(path.parent)], check=True)


def test_what_a_killed_worker_had_is_taken_over_by_another(place: Path, tmp_path: Path) -> None:
    """Within the lease and a beat; how soon, the benchmark says."""
    server = Server(with_workers(tmp_path), "--no-worker", at=place)
    with server, Outpost(server) as first, server.client(server.token()) as client:
        given = envelope("count.wait", {"name": "gate"})
        task_id = client.post("/api/tasks", json=given).json()["data"]["task_id"]
        wait_for(lambda: view(client, task_id)["state"] == "in_progress", "the first worker")

        first.kill()
        with Outpost(server):
            wait_for(lambda: view(client, task_id)["attempt"] > 1, "the second worker")
            (tmp_path / "gate").write_text("open\n")
            ended = wait_for(lambda: (now := view(client, task_id))["state"] == "succeeded" and now, "its end")

    *lost, last = [one["outcome"] for one in ended["attempts"]]
    assert (set(lost), last) == ({"lost"}, "succeeded")


def view(client: httpx.Client, task_id: str) -> dict[str, Any]:
    return client.get(f"/api/tasks/{task_id}").json()["data"]
