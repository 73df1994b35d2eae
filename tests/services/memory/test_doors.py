"""The same memories over A2A 1.0, over the seeds' older paths, and in the shell."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.harness import Server
from tests.services.memory.remembering import somebody
from tests.tenants import new_tenant


class OneZero:
    """A tool call as a message of A2A 1.0."""

    def __init__(self, server: Server, tenant: str, role: str = "operator") -> None:
        self.http = server.client(server.token(user="ada", role=role, tenant=tenant))
        self.task_id = ""

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """How the task ended, and what the tool gave or why it failed."""
        message = {
            "role": "ROLE_USER", "messageId": uuid4().hex, "parts": [{"data": {"tool": tool, "arguments": arguments}}],
        }  # fmt: skip
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        task = self.http.post("/a2a", json=body, headers={"A2A-Version": "1.0"}).json()["result"]["task"]
        self.task_id = task["id"]
        return _outcome(task, task["status"]["state"].removeprefix("TASK_STATE_").lower())


class Seeds(OneZero):
    """The same as the seeds write it."""

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """How the task ended, and what the tool gave or why it failed."""
        part = {"type": "data", "data": {"tool": tool, "arguments": arguments}}
        task = self.http.post("/tasks/send", json={"message": {"role": "user", "parts": [part]}}).json()
        self.task_id = task["id"]
        return _outcome(task, task["status"]["state"])


def _outcome(task: dict[str, Any], state: str) -> tuple[str, dict[str, Any]]:
    parts = task["artifacts"][0]["parts"] if state == "completed" else task["status"]["message"]["parts"]
    data = next(part["data"] for part in parts if "data" in part)
    return state, data if state == "completed" else data["error"]


@pytest.fixture(params=[OneZero, Seeds])
def door(request: pytest.FixtureRequest, server: Server) -> Iterator[OneZero]:
    """One caller, by each of the two ways."""
    made: OneZero = request.param(server, new_tenant(server))
    with made.http:
        yield made


@pytest.mark.req("MKS-MEM-1", "MKS-MEM-2", "MKS-MEM-3")
def test_a_memory_is_added_found_with_precedence_and_deleted(door: OneZero) -> None:
    where = {"project_id": "apollo"}
    said = {"content": "Releases go out on Friday.", "layer": "company"}
    _, general = door.call("memory_add", said)
    state, added = door.call("memory_add", {**said, "layer": "project", "ids": where, "tags": ["release"]})
    assert (state, added["success"]) == ("completed", True)

    _, found = door.call("memory_search", {"query": "when do releases go out?", "ids": where, "tags": ["release"]})
    _, both = door.call("memory_search", {"query": "when do releases go out?", "ids": where})

    assert [hit["memory_id"] for hit in found["results"]] == [added["memory_id"]]
    assert found["searched_layers"] == ["user", "project", "company"]
    (hit,) = both["results"]
    assert (hit["memory_id"], hit["layer"]) == (added["memory_id"], "project")
    assert [folded["memory_id"] for folded in hit["folded"]] == [general["memory_id"]]
    state, gone = door.call("memory_delete", {"memory_id": added["memory_id"]})
    assert (state, gone) == ("completed", {"memory_id": added["memory_id"], "success": True})
    _, after = door.call("memory_search", {"query": "when do releases go out?", "ids": where, "layers": ["project"]})
    assert (after["results"], after["total_count"]) == ([], 0)


def test_a_memory_tells_who_added_it_in_which_task_and_where_it_came_from(door: OneZero) -> None:
    _, added = door.call("memory_add", {"content": "The lift is slow.", "source_type": "conversation"})
    task_id = door.task_id

    _, shown = door.call("memory_get", {"memory_id": added["memory_id"]})

    source = shown["source"]
    assert (source["type"], source["by"], source["task_id"]) == ("conversation", "ada", task_id)


@pytest.mark.req("MKS-ERR-1")
def test_wrong_arguments_fail_with_the_field(door: OneZero) -> None:
    state, error = door.call("memory_add", {"content": "x", "layer": "team"})

    assert (state, error["code"]) == ("failed", "INVALID_PARAMS")
    assert [fault["field"] for fault in error["details"]["errors"]] == ["ids.team_id"]


@pytest.mark.req("MKS-ERR-2")
@pytest.mark.parametrize("way", [OneZero, Seeds])
def test_who_may_not_write_fails_with_unauthorized(server: Server, way: type[OneZero]) -> None:
    viewer = way(server, new_tenant(server), role="viewer")
    with viewer.http:
        state, error = viewer.call("memory_add", {"content": "x"})

    assert (state, error["code"]) == ("failed", "UNAUTHORIZED")


def test_the_shell_adds_finds_and_shows(server: Server) -> None:
    tenant = new_tenant(server)
    added = server.cli(
        "memory", "add", "--content", "Ada prefers tea.", "--tags", "drink", "--json", "--tenant", tenant
    )
    memory_id = json.loads(added.stdout)["memory_id"]

    found = server.cli("memory", "search", "--query", "tea", "--tenant", tenant)
    refused = server.cli("memory", "search", "--query", "tea", "--threshold", "2", "--tenant", tenant, "--json")

    assert memory_id in found.stdout
    assert "Ada prefers tea." in found.stdout
    assert (refused.returncode, json.loads(refused.stdout)["error"]["code"]) == (1, "INVALID_PARAMS")
    assert server.cli("memory", "delete", memory_id, "--tenant", tenant).returncode == 0


def test_the_shell_writes_memories_to_a_file_and_reads_them_elsewhere(server: Server, tmp_path: Path) -> None:
    here, there = new_tenant(server), new_tenant(server)
    file = tmp_path / "memories.jsonl"
    with somebody(server, user="cli", role="org_admin", tenant=here).http as http:
        # More than the server takes at once.
        for begin in (0, 300):
            new = [{"content": f"Fact {n}.", "layer": "company"} for n in range(begin, begin + 300)]
            http.post("/api/memories/bulk", json={"memories": new}).raise_for_status()
    company = ("--layers", "company")

    written = server.cli("memory", "export", str(file), *company, "--json", "--tenant", here)
    read = server.cli("memory", "import", str(file), "--json", "--tenant", there)
    again = server.cli("memory", "import", str(file), "--tenant", there)
    file.write_text('{"content": "Fact.", "layer": "company"}\nnot JSON\n')
    refused = server.cli("memory", "import", str(file), "--tenant", there)

    assert json.loads(written.stdout) == {"file": str(file), "memories": 600}
    assert (json.loads(read.stdout)["added"], json.loads(read.stdout)["deduplicated"]) == (600, 0)
    assert "0 new, 600 merged" in again.stdout
    assert refused.returncode == 2
    assert "line 2 is not JSON" in refused.stderr


def test_health_tells_of_memory(server: Server) -> None:
    with somebody(server).http as client:
        assert client.get("/health").json()["dependencies"]["memory"]["status"] == "up"
