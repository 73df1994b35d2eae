"""An MCP server, made with the official SDK, as a worker."""

import socket
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.doors.rest.calling import data, new_tenant
from tests.harness import InProcess, Server, wait_for
from tests.kit.web import free_port
from tests.services.tasks.envelopes import ended, envelope, submit

PROGRAM = str(Path(__file__).with_name("mcp_worker.py"))
ACTIONS = ["form.fill", "form.break", "form.die", "form.die_once", "form.unknown"]


@contextmanager
def served(port: int, traces: Path) -> Generator[None]:
    with subprocess.Popen([sys.executable, PROGRAM, str(port), str(traces)]) as process:
        try:
            wait_for(lambda: answers(port), "the MCP server")
            yield
        finally:
            process.kill()


def answers(port: int) -> bool:
    with closing(socket.socket()) as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def home() -> Iterator[Server]:
    # A server that comes back under load takes its time; the task has more attempts than that takes.
    patient = {"DRAGOMAN_TASKS__MAX_ATTEMPTS": "20", "DRAGOMAN_TASKS__RETRY_MAX_S": "1"}
    with InProcess({"DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1", **patient}) as running:
        yield running


@pytest.fixture
def engage(home: Server) -> Iterator[Callable[[int], httpx.Client]]:
    """A tenant that lets the server on a port perform all of its actions."""
    with home.client(home.token(tenant=new_tenant(home)["slug"])) as admin:

        def allow(port: int) -> httpx.Client:
            worker = {"name": "forms", "kind": "mcp", "url": f"http://127.0.0.1:{port}/mcp"}
            actions = [{"action": action, "timeout_s": 10} for action in ACTIONS]
            data(admin.post("/api/workers", json=worker | {"actions": actions}), 201)
            for action in ACTIONS:
                data(admin.post(f"/api/capabilities/{action}/allow", json={"worker": "mcp:forms"}))
            return admin

        yield allow


def test_a_tool_performs_the_action_with_the_envelope_and_a_key_beside_it(
    engage: Callable[[int], httpx.Client], tmp_path: Path
) -> None:
    port = free_port()
    with served(port, tmp_path):
        admin = engage(port)
        task_id = submit(admin, envelope("form.fill", {"name": "w8"}))["task_id"]
        view = ended(admin, task_id)

    assert view["state"] == "succeeded", view
    assert view["result"] == {"filled": "w8", "matter": "matter-1"}
    assert [step["worker"] for step in view["history"] if step["to"] == "in_progress"] == ["mcp:forms"]
    assert (tmp_path / "w8").read_text().startswith(f"{task_id}:mcp.call.1:")


def test_an_error_of_the_tool_is_the_error_of_the_task_and_so_is_a_tool_that_is_not_there(
    engage: Callable[[int], httpx.Client], tmp_path: Path
) -> None:
    port = free_port()
    with served(port, tmp_path):
        admin = engage(port)
        views = [
            ended(admin, submit(admin, envelope(action, {"name": uuid4().hex}))["task_id"])
            for action in ("form.break", "form.unknown")
        ]

    assert [view["state"] for view in views] == ["failed", "failed"]
    assert views[0]["error"]["details"]["remote_code"] == "NO_FORM"
    assert views[1]["error"]["details"]["reason"] == "REMOTE_REFUSED"


def test_a_server_that_dies_in_the_middle_leaves_the_task_to_a_person(
    engage: Callable[[int], httpx.Client], tmp_path: Path
) -> None:
    """Nobody knows whether it was done, so nothing is guessed."""
    port = free_port()
    with served(port, tmp_path):
        admin = engage(port)
        task_id = submit(admin, envelope("form.die", {"name": "once"}))["task_id"]
        wait_for(lambda: not answers(port), "the end of the server")
    with served(port, tmp_path):
        view = ended(admin, task_id, within=("input_required", "dead_letter", "failed", "succeeded"))

    assert view["state"] == "input_required", view
    assert len((tmp_path / "once").read_text().splitlines()) == 1


def test_a_tool_that_is_idempotent_is_called_again_with_the_same_key(
    engage: Callable[[int], httpx.Client], tmp_path: Path
) -> None:
    port = free_port()
    with served(port, tmp_path):
        admin = engage(port)
        task_id = submit(admin, envelope("form.die_once", {"name": "twice"}))["task_id"]
        wait_for(lambda: not answers(port), "the end of the server")
    with served(port, tmp_path):
        view = ended(admin, task_id)

    assert view["state"] == "succeeded", view
    assert len(set((tmp_path / "twice").read_text().splitlines())) == 1
