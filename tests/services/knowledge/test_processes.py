"""Several server processes, and two tenants, on their repositories at once."""

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.backstage import children_of
from tests.doors.rest.calling import new_tenant
from tests.harness import Server, wait_for
from tests.tenants import done


@pytest.fixture(scope="module")
def crew() -> Iterator[Server]:
    """A server of two processes."""
    with Server(None, "--workers", "2") as running:
        wait_for(lambda: len(children_of(running)) == 2, "two processes")
        yield running


def test_two_processes_and_two_tenants_write_at_once_and_nothing_is_lost_or_leaks(crew: Server) -> None:
    tenants = [str(new_tenant(crew)["slug"]) for _ in range(2)]

    def decide(number: int) -> str:
        tenant = tenants[number % 2]
        # A connection of its own each time: the kernel gives it to one process or the other.
        with crew.client(crew.token(tenant=tenant)) as client:
            new = {"type": "adr", "title": f"Decision {number}", "content": f"Of {tenant}."}
            item_id = done(client.post("/api/knowledge/propose", json=new))["id"]
            done(client.post(f"/api/knowledge/{item_id}/accept", json={}))
        return str(item_id)

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(decide, range(24)))

    for place, tenant in enumerate(tenants):
        with crew.client(crew.token(tenant=tenant)) as client:
            found = done(client.post("/api/knowledge/query", json={"limit": 100, "status": ["accepted"]}))
            status = done(client.get("/api/knowledge/status"))
        assert {item["id"] for item in found["items"]} == set(ids[place::2])
        assert {item["summary"] for item in found["items"]} == {f"Of {tenant}."}
        assert status["head"] == status["indexed"]
    for repository in (crew.data_dir / "knowledge").glob("*.git"):
        checked = subprocess.run(
            ["git", "-C", str(repository), "fsck", "--strict"], capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stderr


def test_two_who_accept_the_same_proposal_accept_it_once(crew: Server) -> None:
    tenant = str(new_tenant(crew)["slug"])
    with crew.client(crew.token(tenant=tenant)) as client:
        item_id = done(client.post("/api/knowledge/propose", json={"type": "adr", "title": "One", "content": "x"}))[
            "id"
        ]

    def accept(_: int) -> int:
        with crew.client(crew.token(tenant=tenant)) as client:
            return client.post(f"/api/knowledge/{item_id}/accept", json={}).status_code

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(accept, range(6)))

    assert sorted(answers) == [200, 409, 409, 409, 409, 409]
