"""A second server with an agent of its own as a worker of the first."""

import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.backstage import sql
from tests.doors.rest.calling import data, new_tenant
from tests.harness import InProcess, Process, Server, wait_for
from tests.services.tasks.conftest import TREE
from tests.services.tasks.envelopes import ended, envelope, submit
from tests.services.tasks.partner import EVIDENCE, OUTSIDE

ACTION = "seal.affix"
HOME = {"DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1", "DRAGOMAN_TASKS__RETRY_BASE_S": "0.05"}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the agent leaves what it did."""
    return tmp_path_factory.mktemp("partner")


@pytest.fixture(scope="module")
def partner(traces: Path) -> Iterator[Server]:
    agent = {"PYTHONPATH": TREE, "DRAGOMAN_AGENT": "tests.services.tasks.partner:agent", OUTSIDE: str(traces)}
    with InProcess(agent | {"DRAGOMAN_LIMITS__A2A_TENANT_PER_MIN": "1000000"}) as running:
        yield running


@pytest.fixture(scope="module")
def home() -> Iterator[Server]:
    with InProcess(HOME) as running:
        yield running


@contextmanager
def engage(home: Server, url: str, credential: str, **limits: Any) -> Generator[httpx.Client]:
    """An administrator of a new tenant, which lets the partner perform the action."""
    worker = {"name": "partner", "kind": "a2a", "url": url, "credential": credential}
    with home.client(home.token(tenant=new_tenant(home)["slug"])) as admin:
        data(admin.post("/api/workers", json=worker | {"actions": [{"action": ACTION, **limits}]}), 201)
        data(admin.post(f"/api/capabilities/{ACTION}/allow", json={"worker": "a2a:partner"}))
        yield admin


@pytest.fixture
def admin(home: Server, partner: Server) -> Iterator[httpx.Client]:
    with engage(home, partner.url, partner.token(role="agent")) as client:
        yield client


def work(how: str) -> tuple[str, dict[str, Any]]:
    name = uuid4().hex
    return name, envelope(ACTION, {"name": name, "how": how})


def times(traces: Path, name: str) -> int:
    path = traces / name
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_an_agent_performs_what_it_is_allowed_and_the_history_says_that_it_did(
    admin: httpx.Client, traces: Path
) -> None:
    name, given = work("do")

    view = ended(admin, submit(admin, given)["task_id"])

    assert view["state"] == "succeeded", view
    assert (view["result"]["did"], view["result"]["for"]) == (ACTION, "matter-1")
    assert [step["worker"] for step in view["history"] if step["to"] == "in_progress"] == ["a2a:partner"]
    assert [(one["kind"], one["sha256"]) for one in view["evidence"]] == [("signature", EVIDENCE["sha256"])]
    assert times(traces, name) == 1


def test_what_the_agent_asks_is_asked_here_and_the_answer_is_passed_on(admin: httpx.Client, traces: Path) -> None:
    name, given = work("ask")
    task_id = submit(admin, given)["task_id"]
    parked = ended(admin, task_id, within=("input_required", "failed", "dead_letter"))

    data(admin.post(f"/api/tasks/{task_id}/input", json={"input": {"answer": "green"}}))

    assert parked["state"] == "input_required", parked
    assert "Which colour?" in str(parked)
    assert ended(admin, task_id)["result"] == {"colour": "green"}
    assert times(traces, name) == 1


def test_a_task_that_is_cancelled_here_is_cancelled_there(admin: httpx.Client, traces: Path) -> None:
    name, given = work("stay")
    task_id = submit(admin, given)["task_id"]
    wait_for(lambda: times(traces, name), "the agent to begin")

    data(admin.post(f"/api/tasks/{task_id}/cancel", json={}))

    wait_for(lambda: times(traces, f"{name}.cancelled"), "the agent to hear of it")
    assert ended(admin, task_id)["state"] == "cancelled"


def test_a_failure_in_passing_is_tried_again_and_any_other_is_not(admin: httpx.Client, traces: Path) -> None:
    passing, given = work("break-once")
    broken, breaking = work("break")
    refused, refusing = work("reject")

    views = [ended(admin, submit(admin, one)["task_id"]) for one in (given, breaking, refusing)]

    assert [view["state"] for view in views] == ["succeeded", "failed", "failed"]
    assert [times(traces, name) for name in (passing, broken, refused)] == [2, 1, 1]
    assert [view["error"]["code"] for view in views[1:]] == ["UPSTREAM_FAILED"] * 2
    assert [view["error"]["details"]["reason"] for view in views[1:]] == ["REMOTE_FAILED", "REMOTE_REJECTED"]
    assert views[1]["error"]["details"]["remote_code"] == "PRESS_BROKEN"


def test_an_agent_that_takes_too_long_is_waited_for_again_and_given_nothing_twice(
    home: Server, partner: Server, traces: Path
) -> None:
    name, given = work("stay")
    with engage(home, partner.url, partner.token(role="agent"), timeout_s=1) as admin:
        task_id = submit(admin, given)["task_id"]
        # As often as it takes: a busy machine may need more than a second for what comes after the wait.
        sql(home, "UPDATE delegations SET max_attempts = 1000 WHERE task_id = $1::uuid", task_id)
        wait_for(lambda: len(admin.get(f"/api/tasks/{task_id}").json()["data"]["attempts"]) > 1, "a second attempt")
        (traces / f"{name}.go").touch()

        view = ended(admin, task_id)

    assert view["state"] == "succeeded", view
    assert times(traces, name) == 1


def test_an_agent_that_is_not_there_is_tried_until_the_attempts_are_used_up(home: Server, partner: Server) -> None:
    with engage(home, "http://127.0.0.1:9", partner.token(role="agent")) as admin:
        view = ended(admin, submit(admin, work("do")[1])["task_id"])

    assert view["state"] == "dead_letter"
    assert [one["error"]["code"] for one in view["attempts"]] == ["UPSTREAM_UNAVAILABLE"] * 3


def test_an_agent_that_does_not_take_our_credential_has_refused(home: Server, partner: Server) -> None:
    with engage(home, partner.url, "not-a-token") as admin:
        view = ended(admin, submit(admin, work("do")[1])["task_id"])

    assert (view["state"], view["error"]["details"]["reason"]) == ("failed", "REMOTE_REFUSED")
    assert "not-a-token" not in home.log.read_text() + str(view)


def test_a_server_that_is_killed_while_the_agent_works_finds_the_work_again(partner: Server, traces: Path) -> None:
    name, given = work("stay")
    with Process(HOME) as home:
        with engage(home, partner.url, partner.token(role="agent")) as admin:
            task_id = submit(admin, given)["task_id"]
            wait_for(lambda: times(traces, name), "the agent to begin")
            token = admin.headers["authorization"].removeprefix("Bearer ")
        wait_for(lambda: sql(home, "SELECT 1 FROM effects WHERE outcome IS NOT NULL"), "the note of it")
        home.stop(signal.SIGKILL)
        home.start()
        (traces / f"{name}.go").touch()
        with home.client(token) as admin:
            view = ended(admin, task_id)

    assert view["state"] == "succeeded", view
    assert len(view["attempts"]) >= 2
    assert times(traces, name) == 1
