"""Work that waits is checked again when it is run: its sender must still be let in then."""

import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.backstage import sql
from tests.doors.a2a.calling import A2A, state, text
from tests.harness import InProcess, Process, Server, data_dir, wait_for
from tests.services.tasks.conftest import with_workers
from tests.services.tasks.envelopes import ended, envelope, submit
from tests.tenants import beside, done, invite, new_tenant

AT_ONCE = {"returnImmediately": True}
# As a process leaves it that is gone: one that lives would renew its lease before anybody sees that it has ended.
LEAVE = """UPDATE task_queue SET worker = gen_random_uuid(), lease_until = now() - interval '1 s'
    WHERE task_id = $1::uuid"""
AGENT = {"DRAGOMAN_AGENT": "tests.services.tasks.waiting_agent:agent"}


@pytest.fixture(scope="module")
def server(outside: Path) -> Iterator[Server]:
    with InProcess(with_workers(outside) | AGENT) as running:
        yield running


@dataclass(frozen=True, slots=True)
class Sender:
    """One who sends work in a tenant of its own, and what ends its rights."""

    slug: str
    credential: str
    end: Callable[[], Any]


def _by_key(server: Server, slug: str, admin: httpx.Client) -> Sender:
    key = done(admin.post("/api/keys", json={"name": "eve", "subject": "eve", "role": "agent"}))
    return Sender(slug, key["secret"], lambda: done(admin.delete(f"/api/keys/{key['id']}")))


def _by_user(verb: str) -> Callable[[Server, str, httpx.Client], Sender]:
    def make(server: Server, slug: str, admin: httpx.Client) -> Sender:
        user = invite(admin, "eve", "agent")

        def end() -> Any:
            if verb == "delete":
                return done(admin.delete(f"/api/users/{user['id']}"))
            if verb == "role":
                return done(admin.patch(f"/api/users/{user['id']}", json={"role": "viewer"}))
            return done(admin.post(f"/api/users/{user['id']}/{verb}"))

        return Sender(slug, server.token(tenant=slug, user="eve", role="agent"), end)

    return make


def _by_tenant(server: Server, slug: str, admin: httpx.Client) -> Sender:
    del admin

    def end() -> None:
        with server.admin() as platform:
            done(platform.post(f"/api/tenant/{slug}/suspend"))

    return Sender(slug, server.token(tenant=slug, user="eve", role="agent"), end)


ENDS = {
    "key revoked": _by_key,
    "user disabled": _by_user("disable"),
    "user deleted": _by_user("delete"),
    "role changed": _by_user("role"),
    "tenant suspended": _by_tenant,
}


@pytest.fixture(params=ENDS)
def sender(server: Server, request: pytest.FixtureRequest) -> Iterator[Sender]:
    slug = new_tenant(server)
    with server.client(server.token(tenant=slug, user="admin")) as admin:
        yield ENDS[request.param](server, slug, admin)


def rejected(server: Server, task_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the task that was not run, once it has ended, and its audit record."""

    def find() -> Any:
        rows = sql(server, "SELECT state, error FROM tasks WHERE id = $1::uuid AND state <> ALL($2)", task_id,
                   ["requested", "validated", "queued", "in_progress"])  # fmt: skip
        return rows and rows[0]

    task = wait_for(find, "the end of the task")
    assert task["state"] == "rejected"
    records = [json.loads(row["body"]) for row in sql(server, "SELECT body FROM audit_records WHERE outcome <> 'done'")]
    [record] = [record for record in records if record.get("resource") == task_id]
    return json.loads(task["error"]), record


def check_refusal(server: Server, task_id: str, reason: str = "CREDENTIALS_REVOKED") -> None:
    """Check that a task of Eve's was rejected, and that the trail and the security stream say so."""
    error, record = rejected(server, task_id)
    assert (error["code"], error["details"]["reason"]) == ("UNAUTHORIZED", reason)
    assert (record["operation"], record["outcome"], record["subject"]) == ("task.fail", "refused", "eve")
    assert record["reason"] == error["message"]
    [event] = [one for one in server.security_events() if one.get("resource") == f"task/{task_id}"]
    assert (event["event"], event["subject"]) == ("access_denied", "eve")


def test_an_action_is_not_performed_for_a_sender_who_is_no_longer_let_in(
    server: Server, sender: Sender, outside: Path
) -> None:
    gate, name, queue = f"gate-{uuid4().hex[:8]}", f"done-{uuid4().hex[:8]}", {"queue_key": uuid4().hex}
    with server.client(server.token(tenant=sender.slug)) as admin:
        first = submit(admin, envelope("count.wait", {"name": gate}, request=queue))["task_id"]
        ended(admin, first, within=("in_progress",))
    with server.client(sender.credential) as eve:
        actor = {"id": "eve", "type": "agent"}
        task_id = submit(eve, envelope("count.once", {"name": name}, request=queue, actor=actor))["task_id"]

    sender.end()
    (outside / gate).write_text("go\n")

    check_refusal(server, task_id)
    assert not (outside / name).exists()


def test_a_turn_is_not_run_for_a_sender_who_is_no_longer_let_in(server: Server, sender: Sender, tmp_path: Path) -> None:
    eve = A2A(server)
    eve.http.headers["authorization"] = f"Bearer {sender.credential}"
    first = eve.send(text(str(tmp_path / "go"), configuration=AT_ONCE))
    second = eve.send(text(str(tmp_path / "go"), configuration=AT_ONCE, contextId=first["contextId"]))

    sender.end()
    (tmp_path / "go").touch()

    check_refusal(server, second["id"])


def leave_work(server: Server, other: Process, slug: str, lane: str, tmp_path: Path) -> str:
    """Have Eve begin work in the other process and end that; return the task."""
    eve = A2A(other, keys_of=server, tenant=slug, user="eve", role="agent")
    if lane == "turn":
        task_id: str = eve.send(text(str(tmp_path / "never"), configuration=AT_ONCE))["id"]
    else:
        actor = {"id": "eve", "type": "agent"}
        task_id = submit(eve.http, envelope("count.wait", {"name": f"gate-{uuid4().hex[:8]}"}, actor=actor))["task_id"]
    began = "SELECT 1 FROM tasks WHERE id = $1::uuid AND state = 'in_progress'"
    wait_for(lambda: sql(server, began, task_id), "the work to begin")
    return task_id


@pytest.mark.parametrize("lane", ["turn", "action"])
def test_work_that_a_process_left_is_not_taken_over_for_a_deleted_user(
    server: Server, outside: Path, tmp_path: Path, lane: str
) -> None:
    slug = new_tenant(server)
    other = Process(with_workers(outside) | AGENT | beside(server)).start()
    with server.client(server.token(tenant=slug)) as admin:
        user = invite(admin, "eve", "agent")
        # Nobody knows which of the two claims an action: a busy machine may have this server begin it.
        task_id = leave_work(server, other, slug, lane, tmp_path)
        done(admin.delete(f"/api/users/{user['id']}"))

    other.stop(signal.SIGKILL)
    sql(server, LEAVE, task_id)

    check_refusal(server, task_id)


def test_work_is_not_taken_over_for_a_sender_who_lost_the_permission(outside: Path, tmp_path: Path) -> None:
    home, policies = data_dir(), tmp_path / "policies"
    policies.mkdir()
    (policies / "roles.cedar").write_text('permit (principal, action == Action::"read:tasks", resource);')
    first = Process(with_workers(outside) | AGENT, at=home).start()
    left = [leave_work(first, first, "demo", lane, tmp_path) for lane in ("turn", "action")]
    first.stop(signal.SIGKILL)

    with Process(with_workers(outside) | AGENT | {"DRAGOMAN_POLICY_DIR": str(policies)}, at=home) as second:
        for task_id in left:
            check_refusal(second, task_id, "PERMISSION_LOST")


def test_a_turn_that_a_process_left_is_run_as_the_one_who_sent_it(server: Server, tmp_path: Path) -> None:
    slug = new_tenant(server)
    other = Process(AGENT | {"PYTHONPATH": with_workers(tmp_path)["PYTHONPATH"]} | beside(server)).start()
    owner = A2A(server, tenant=slug, user="bot", role="agent")
    task = owner.send(text("ask"))
    assert state(task) == "INPUT_REQUIRED"
    rita = A2A(other, keys_of=server, tenant=slug, user="rita", role="org_admin")

    rita.send(text(str(tmp_path / "go"), taskId=task["id"], configuration=AT_ONCE))
    other.stop(signal.SIGKILL)
    (tmp_path / "go").touch()
    sql(server, LEAVE, task["id"])
    found = wait_for(lambda: state(now := owner.get(task["id"])) == "COMPLETED" and now, "the end of the task")

    assert found["status"]["message"]["parts"] == [{"text": "rita ['org_admin']"}]
