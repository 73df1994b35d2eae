"""A key that may hand over tasks does by a task what it may do by itself: workers have the rights of the server."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.backstage import sql
from tests.doors.a2a.calling import A2A, tool
from tests.doors.mcp.calling import Mcp
from tests.doors.rest.calling import problem
from tests.harness import InProcess, Server, wait_for
from tests.services.knowledge.test_servers import DRAFT
from tests.services.tasks.conftest import with_workers
from tests.services.tasks.envelopes import ended, envelope, submit
from tests.tenants import done, new_tenant

TEXT = base64.b64encode(b"# Terms\n\nThe price is 42.\n").decode()
SIGNERS = [{"name": "Ada", "email": "ada@example.com"}]
# What each action does for its sender, with an input that it takes.
NEEDED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "document.draft": (("write:documents",), DRAFT),
    "document.redline": (("read:documents", "write:documents"), {"edits": [{"find": "42", "replace": "43"}]}),
    "document.mark_executed": (("write:documents",), {"evidence": []}),
    "policy.check": (("read:documents",), {}),
    "checklist.patch": (("write:documents",), {"checklist_id": str(uuid4()), "changes": []}),
    "signature.prepare": (("write:documents",), {"signers": SIGNERS}),
    "signature.send": (("write:documents",), {}),
    "signature.status": (("read:signatures",), {}),
    "signature.void": (("write:documents",), {}),
    "costs.import": (("manage:accounts",), {"import_id": str(uuid4())}),
    "costs.sync": (("manage:accounts",), {}),
    "webhook.process": (("manage:tasks",), {}),
    "costs.demo": (("manage:accounts",), {"remove": True}),
    "remediation.execute": (("write:remediation",), {"risk": "low"}),
}


@pytest.fixture(scope="module")
def server(outside: Path) -> Iterator[Server]:
    with InProcess(with_workers(outside)) as running:
        yield running


class Holder:
    """The holder of a key, in a tenant with one document."""

    def __init__(self, server: Server, *scopes: str) -> None:
        self.slug = new_tenant(server)
        with server.client(server.token(tenant=self.slug)) as admin:
            text = {"content": TEXT, "media_type": "text/markdown", "title": "Terms"}
            self.document = done(admin.post("/api/documents", json=text))["id"]
            key = {"name": "n", "role": "operator", "scopes": ["write:tasks", "read:tasks", *scopes]}
            made = done(admin.post("/api/keys", json=key))
        self.secret, self.subject = made["secret"], made["subject"]

    def envelope(self, action: str, **more: Any) -> dict[str, Any]:
        resource = {"type": "document", "id": "nda-1" if action == "document.draft" else self.document}
        actor = {"id": self.subject, "type": "service"}
        return envelope(action, NEEDED[action][1], resource=resource, actor=actor, **more)


@pytest.mark.parametrize("action", NEEDED)
def test_an_action_needs_the_permission_for_what_it_does(server: Server, action: str) -> None:
    needed = NEEDED[action][0]
    narrow, without_last = Holder(server), Holder(server, *needed[:-1])
    for holder, lacking in ((narrow, needed[0]), (without_last, needed[-1])):
        with server.client(holder.secret) as client:
            refused = problem(client.post("/api/tasks", json=holder.envelope(action)), 403, "UNAUTHORIZED")
            listed = done(client.get("/api/tasks"))

        assert (refused["details"], listed) == ({"permission": lacking}, [])
        events = [one for one in server.security_events() if one.get("subject") == holder.subject]
        assert (events[-1]["event"], events[-1]["permission"]) == ("access_denied", lacking)

    wide = Holder(server, *needed)
    with server.client(wide.secret) as client:
        answer = client.post("/api/tasks", json=wide.envelope(action))
    assert answer.status_code != 403 or answer.json()["code"] == "GOVERNANCE_CONTEXT_REQUIRED"


def test_it_is_refused_by_the_other_doors_too(server: Server) -> None:
    holder = Holder(server)
    given = {"envelope": holder.envelope("document.redline")}
    a2a, mcp = A2A(server, tenant=holder.slug), Mcp(server, tenant=holder.slug)
    for client in (a2a.http, mcp.http):
        client.headers["authorization"] = f"Bearer {holder.secret}"

    task = a2a.send(tool("task_submit", given))
    told = mcp.call("task_submit", given)
    a2a.http.close()

    for answer in (task["status"], told):
        assert "document.redline needs the permission read:documents" in json.dumps(answer)
    queued = "SELECT 1 FROM delegations d JOIN tenants t ON t.id = d.tenant_id WHERE slug = $1"
    assert sql(server, queued, holder.slug) == []


def test_a_permission_that_was_lost_meanwhile_ends_the_task(server: Server, outside: Path) -> None:
    gate, queue = f"gate-{uuid4().hex[:8]}", {"queue_key": uuid4().hex}
    holder = Holder(server, "write:documents")
    with server.client(server.token(tenant=holder.slug)) as admin, server.client(holder.secret) as client:
        first = submit(admin, envelope("count.wait", {"name": gate}, request=queue))["task_id"]
        ended(admin, first, within=("in_progress",))
        task_id = submit(client, holder.envelope("document.draft", request=queue))["task_id"]
        narrower = "UPDATE tasks SET caller = jsonb_set(caller, '{scopes}', '[\"write:tasks\"]') WHERE id = $1::uuid"
        sql(server, narrower, task_id)
        (outside / gate).write_text("go\n")
        found = wait_for(
            lambda: (task := done(client.get(f"/api/tasks/{task_id}")))["state"] == "rejected" and task, "the end"
        )

    assert (found["error"]["code"], found["error"]["details"]) == (
        "UNAUTHORIZED", {"reason": "PERMISSION_LOST", "permission": "write:documents"},
    )  # fmt: skip


# These pass the gate as the operations that they stand for.
THROUGH_THE_GATE = {"approval.request", "approval.decide"}


def test_every_action_of_the_server_says_what_its_sender_needs() -> None:
    """The next action cannot forget it: it stands in one of these lists."""
    with InProcess({}) as plain, plain.client(plain.token()) as client:
        actions = {one["action"] for one in done(client.get("/api/capabilities"))}

    assert actions == {*NEEDED, *THROUGH_THE_GATE}
