"""A submission that PostgreSQL did not take is an error on every binding of A2A, and never an acknowledged task."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import httpx
import pytest

from tests.chaos.callers import Caller, Json, envelope, message
from tests.chaos.installation import Installation
from tests.harness import wait_for


def _by_json_rpc(caller: Caller, params: Json) -> httpx.Response:
    return caller.a2a("SendMessage", params)


def _by_http(caller: Caller, params: Json) -> httpx.Response:
    return caller.http.post("/a2a/rest/message:send", json=params, headers={"A2A-Version": "1.0"})


Send = Callable[[Caller, Json], httpx.Response]
BINDINGS: dict[str, Send] = {"json-rpc": _by_json_rpc, "http": _by_http}


@pytest.fixture(params=BINDINGS)
def send(request: pytest.FixtureRequest) -> Send:
    """SendMessage by each binding."""
    return BINDINGS[request.param]


@pytest.mark.req("GW-208")
@pytest.mark.parametrize("at_once", [True, False], ids=["at-once", "waiting"])
def test_an_envelope_whose_hand_over_is_cut_off_is_refused_and_taken_later(
    site: Installation, send: Send, *, at_once: bool
) -> None:
    name = f"handed-{uuid4().hex[:8]}"
    given = envelope("work.find", {"name": name}, matter={"id": name})
    part = {"data": {"tool": "task_submit", "arguments": {"envelope": given}}}
    caller = site.caller("s1")

    with ThreadPoolExecutor(1) as pool:
        with site.postgres.locked("tasks", "task_events"):
            answer = pool.submit(send, caller, message(part, at_once=at_once))
            # Whatever waits for the lock is cut off, jobs too, until the hand-over was.
            wait_for(lambda: site.postgres.terminate_blocked() >= 0 and answer.done(), "the hand-over to be refused")
        refused = answer.result()

    _check_refused(refused)
    taken = wait_for(lambda: _taken(send(caller, message(part, at_once=at_once))), "it to be taken")
    task = taken.json().get("result", taken.json())["task"]
    assert caller.reaches(task["id"])["state"] == "succeeded"
    assert len(site.journal.read(name, "effect")) == 1
    assert [one["task_id"] for one in caller.rest("GET", f"/api/tasks?matter={name}").json()["data"]] == [task["id"]]


@pytest.mark.req("GW-208")
@pytest.mark.parametrize("what", ["envelope", "message"])
def test_nothing_is_acknowledged_while_postgresql_is_down(site: Installation, send: Send, what: str) -> None:
    caller = site.caller("s1")
    work = {"name": f"said-{uuid4().hex[:8]}", "for_s": 0}
    tool = {"tool": "task_submit", "arguments": {"envelope": envelope("work.find", {"name": work["name"]})}}
    assert caller.rest("GET", "/api/me").status_code == 200

    site.postgres.kill()
    refused = send(caller, message({"data": work if what == "message" else tool}, at_once=True))
    site.postgres.start()

    _check_refused(refused)


def _check_refused(answer: httpx.Response) -> None:
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["retry-after"]) > 0
    assert "UPSTREAM_UNAVAILABLE" in answer.text
    assert "result" not in answer.json()


def _taken(answer: httpx.Response) -> httpx.Response | None:
    return answer if answer.status_code == 200 else None
