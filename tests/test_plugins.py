"""A plugin of somebody else: installed beside the server, found by its entry point, reached by every door."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.harness import Process, wait_for
from tests.receiver import Receiver
from tests.services.tasks.envelopes import envelope

EXAMPLE = Path(__file__).parents[1] / "examples" / "greetings"


def installed(site: Path, name: str, value: str) -> str:
    """Write what an installer writes of a distribution; return the path by which it is found."""
    info = site / f"{name}-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[dragoman.plugins]\n{name} = {value}\n")
    return os.pathsep.join((str(site), str(EXAMPLE)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    path = installed(tmp_path_factory.mktemp("site"), "greetings", "greetings.plugin:PLUGIN")
    given = {"DRAGOMAN_GREETINGS__WORD": "Salve", "DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1"}
    with Process({"PYTHONPATH": path, **given}) as running:
        yield running


def test_its_operations_answer_over_rest_and_mcp_and_are_in_the_documents(server: Process) -> None:
    with server.admin() as admin:
        made = admin.post("/api/greetings", json={"name": "Ada"})
        call = {"name": "greeting_list", "arguments": {}}
        over_mcp = admin.post(
            "/mcp",
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
            headers={"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"},
        )
        document = admin.get("/openapi.json").json()
        records = admin.get("/api/audit", params={"operation": "greeting.say"}).json()["data"]

    assert (made.status_code, made.json()["data"]["words"]) == (201, "Salve, Ada!")
    assert "Salve, Ada!" in over_mcp.text
    assert {"get", "post"} <= set(document["paths"]["/api/greetings"])
    assert [record["resource"] for record in records] == [made.json()["data"]["id"]]


def test_its_worker_performs_actions_that_are_handed_over(server: Process) -> None:
    given = envelope("greeting.deliver", {"name": "Bob"}, actor={"id": "ann", "type": "human"})
    with server.client(server.token(user="ann")) as ann:
        task_id = ann.post("/api/tasks", json=given).json()["data"]["task_id"]

        done = wait_for(
            lambda: (view := ann.get(f"/api/tasks/{task_id}").json()["data"])["state"] == "succeeded" and view,
            "the end of the task",
        )

    assert done["result"]["delivered"] == "Salve, Bob!"


def test_its_events_reach_subscribers_when_what_they_tell_of_is_committed(server: Process) -> None:
    with Receiver() as receiver, server.admin() as admin:
        new = {"url": receiver.url, "events": ["greeting.*"]}
        subscription = admin.post("/api/subscriptions", json=new).json()["data"]
        key = {"idempotency-key": uuid4().hex}
        made = [admin.post("/api/greetings", json={"name": "Eve"}, headers=key).json()["data"] for _ in range(2)]
        refused = admin.post("/api/greetings", json={"name": ""})

        told = receiver.next().json
        deliveries = admin.get(f"/api/subscriptions/{subscription['id']}/deliveries").json()["data"]

    assert (told["type"], told["data"]) == ("greeting.said", {"greeting_id": made[0]["id"]})
    assert refused.status_code == 400
    assert [delivery["subject"] for delivery in deliveries] == [made[1]["id"]]


def test_its_command_check_and_settings_are_those_of_the_server(server: Process) -> None:
    said = server.shell("greeting", "say", "--name", "Cleo", "--json")
    with server.client() as anyone:
        health = anyone.get("/health").json()

    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["words"] == "Salve, Cleo!"
    assert health["dependencies"]["greetings"]["detail"] == "greets with Salve"


def test_rows_of_other_tenants_are_out_of_reach(server: Process) -> None:
    slug = f"t{uuid4().hex[:12]}"
    with server.admin() as admin:
        admin.post("/api/tenant", json={"name": "Rival", "slug": slug}).raise_for_status()

    with server.client(server.token(tenant=slug)) as rival:
        assert rival.get("/api/greetings").json()["data"] == []


@pytest.mark.parametrize(
    ("value", "said"),
    [("nowhere.plugin:PLUGIN", "cannot be loaded"), ("dragoman.errors:Kind", "must name a dragoman.plugin.Plugin")],
)
def test_a_plugin_that_cannot_be_used_is_named_at_the_start(tmp_path: Path, value: str, said: str) -> None:
    environment = os.environ | {"PYTHONPATH": installed(tmp_path, "broken", value)}

    ended = subprocess.run(
        [str(Path(sys.executable).with_name("dragoman")), "config", "check"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ended.returncode == 2
    assert "'broken'" in ended.stderr
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
