"""A sync that takes long: its task is at work and says how far it is, whoever asks, and outlives its server."""

import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.doors.a2a.calling import A2A, BRIEF, state, tool
from tests.harness import DRAGOMAN, Process, Server, wait_for
from tests.patience import PATIENCE_S
from tests.services.knowledge.remotes import HeldRemote, Remote, item
from tests.tenants import new_tenant

ITEMS = 60
# Who waits for an answer gets the task as it is after half a second.
IMPATIENT = {"PYTHONPATH": BRIEF, "DRAGOMAN_LIMITS__A2A_TENANT_PER_MIN": "100000"}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Remote:
    """A repository of which half is several of the 64 KB packets that git sends, so that half of it is progress."""
    remote = Remote(tmp_path_factory.mktemp("remote") / "r")
    noise = random.Random(7)
    remote.write(**{f"company__adrs__a{n}": item(f"Title {n}") + noise.randbytes(6_000).hex() for n in range(ITEMS)})
    return remote


@pytest.fixture
def held(filled: Remote, tmp_path: Path) -> Iterator[HeldRemote]:
    with HeldRemote(filled, tmp_path) as remote:
        yield remote


def words_of(task: dict[str, Any]) -> str:
    """What the task says of itself."""
    return "".join(part.get("text", "") for part in task["status"].get("message", {}).get("parts", []))


@pytest.mark.req("MKS-ST-2")
def test_a_long_sync_is_at_work_with_progress_until_it_completes(held: HeldRemote) -> None:
    with Process(IMPATIENT | held.environment) as server:
        caller = A2A(server, tenant=new_tenant(server))
        wanted = {"remote": held.url}

        at_once = caller.send(tool("knowledge_sync", wanted, configuration={"returnImmediately": True}))
        assert held.held.wait(PATIENCE_S)
        waited = caller.http.post(
            "/tasks/send",
            json={"message": {"role": "user", "parts": [
                {"type": "data", "data": {"tool": "knowledge_sync", "arguments": wanted}}]}},
        ).json()  # fmt: skip
        shown = wait_for(lambda: _fetching(caller.get(at_once["id"])), "progress")
        by_path = caller.http.get(f"/tasks/{at_once['id']}/get").json()

        assert {state(at_once), waited["status"]["state"].upper()} <= {"SUBMITTED", "WORKING"}
        assert state(shown) == "WORKING"
        assert 0 < shown["metadata"]["percent"] < 50
        assert (by_path["status"]["state"], words_of(by_path)) == ("working", words_of(shown))

        held.go.set()
        for task_id in (at_once["id"], waited["id"]):
            done = wait_for(lambda one=task_id: _ended(caller.get(one)), "the end of the sync")
            assert state(done) == "COMPLETED", done["status"]
        assert done["artifacts"][0]["parts"][0]["data"]["merged"] is True
        assert caller.http.get(f"/tasks/{at_once['id']}/get").json()["status"]["state"] == "completed"


def test_a_sync_outlives_its_server_and_the_command_line_follows_one_for_as_long_as_it_takes(held: HeldRemote) -> None:
    first = Process(IMPATIENT | held.environment, keep=True)
    with first:
        caller = A2A(first)
        task = caller.send(tool("knowledge_sync", {"remote": held.url}, configuration={"returnImmediately": True}))
        wait_for(lambda: _fetching(caller.get(task["id"])), "progress")
        first.stop(signal.SIGKILL)
    held.go.set()

    with Process(IMPATIENT | held.environment, at=first.data_dir) as second:
        caller = A2A(second)
        done = wait_for(lambda: _ended(caller.get(task["id"])), "the end of the sync")
        assert state(done) == "COMPLETED"
        assert done["artifacts"][0]["parts"][0]["data"]["head"] is not None
        found = caller.http.post("/api/knowledge/query", json={"limit": 100}).json()["data"]
        assert found["total_count"] == ITEMS

        held.go.clear()
        held.held.clear()
        following = _follow(second, held.url, tenant=new_tenant(second))
        assert held.held.wait(PATIENCE_S)
        assert following.stderr is not None
        assert "fetch" in following.stderr.readline()
        # One who came later and waited as long as one may has gone: the command has not.
        waited = A2A(second, tenant=new_tenant(second)).send(tool("knowledge_sync", {"remote": held.url}))
        assert (state(waited), following.poll()) == ("WORKING", None)

        held.go.set()
        out, _ = following.communicate(timeout=PATIENCE_S)
        assert following.returncode == 0
        assert ["added", str(ITEMS)] in [line.split() for line in out.splitlines()]


def test_a_remote_that_has_gone_silent_does_not_keep_a_server_from_ending(held: HeldRemote) -> None:
    server = Process(held.environment)
    with server:
        A2A(server).send(tool("knowledge_sync", {"remote": held.url}, configuration={"returnImmediately": True}))
        assert held.held.wait(PATIENCE_S)

        assert server.stop() == 0
        assert not held.go.is_set()


def _follow(server: Server, url: str, *, tenant: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(DRAGOMAN), "knowledge", "sync", "--remote", url, "--tenant", tenant],
        env=server.environment | {"DRAGOMAN_URL": server.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _fetching(task: dict[str, Any]) -> dict[str, Any] | None:
    return task if words_of(task).startswith("fetched") else None


def _ended(task: dict[str, Any]) -> dict[str, Any] | None:
    return task if state(task) not in ("SUBMITTED", "WORKING") else None
