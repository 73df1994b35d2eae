"""Requests for signatures as tasks: handed over at a door, performed by the server's own worker."""

import base64
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import typst

from tests.harness import Process, Server, wait_for
from tests.patience import PATIENCE_S
from tests.services.signatures.remote_providers import TOKEN, DocumensoServer, serving
from tests.services.tasks.envelopes import envelope
from tests.tenants import done, join

Json = dict[str, Any]
PDF = base64.b64encode(typst.compile(b"= NDA")).decode()
SIGNERS = [{"name": "Ada", "email": "ada@example.com"}]


@pytest.fixture(scope="module")
def outgoing() -> Iterator[Server]:
    """A server that may reach the providers of this machine, and may be killed."""
    with Process({"DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1"}) as running:
        yield running


def kept(boss: httpx.Client) -> Json:
    given = {"content": PDF, "media_type": "application/pdf", "title": "NDA"}
    return done(boss.post("/api/documents", json=given))


def about(document: Json) -> Json:
    return {"type": "document", "id": document["id"], "sha256": document["sha256"]}


def ended(boss: httpx.Client, task_id: str) -> Json:
    def look() -> Json | None:
        task = done(boss.get(f"/api/tasks/{task_id}"))
        return task if task["state"] in ("succeeded", "failed", "rejected", "dead_letter") else None

    return wait_for(look, "the end of the task")


@pytest.mark.req("ORC-CAP-1")
def test_a_request_is_drafted_by_the_signature_worker_as_long_as_the_tenant_lets_it(outgoing: Server) -> None:
    """Routed by its action and the tenant's allow-list; the assignment stands in the history."""
    with outgoing.client(outgoing.token()) as boss:
        document = kept(boss)
        made = envelope("signature.prepare", {"signers": SIGNERS}, resource=about(document))
        done(boss.post("/api/capabilities/signature.prepare/deny", json={"worker": "signature"}))
        refused = boss.post("/api/tasks", json=made).json()
        done(boss.post("/api/capabilities/signature.prepare/allow", json={"worker": "signature"}))

        task = ended(boss, done(boss.post("/api/tasks", json=made))["task_id"])

        found = done(boss.get(f"/api/signatures/{task['result']['signature_id']}"))
    assert refused["code"] == "CAPABILITY_NOT_FOUND"
    assert (task["state"], task["result"]["status"]) == ("succeeded", "created")
    assert "signature" in [step.get("worker") for step in task["history"]]
    assert (found["document_sha256"], found["prepared_task"]) == (document["sha256"], task["task_id"])


def test_nothing_is_sent_without_policies_and_approvals(outgoing: Server) -> None:
    with outgoing.client(outgoing.token()) as boss:
        made = envelope("signature.prepare", {"signers": SIGNERS}, resource=about(kept(boss)))
        draft = ended(boss, done(boss.post("/api/tasks", json=made))["task_id"])["result"]
        resource = {"type": "signature", "id": draft["signature_id"]}

        refused = boss.post("/api/tasks", json=envelope("signature.send", resource=resource)).json()

        found = done(boss.get(f"/api/signatures/{draft['signature_id']}"))
    assert refused["code"] == "GOVERNANCE_CONTEXT_REQUIRED"
    assert found["status"] == "created"


def approved(boss: httpx.Client, olga: httpx.Client, given: Json) -> Json:
    """The same envelope with the policies and the approval that its refusal asked for."""
    missing = boss.post("/api/tasks", json=given).json()["details"]["missing"]
    policies, approvals = (
        next(one for one in missing if one["field"] == f"governance.{name}_refs") for name in ("policy", "approval")
    )
    approval = done(boss.post("/api/approvals", json=approvals["request"]))
    decision = {"decision": "approve", "reason": "read it"}
    done(olga.post(f"/api/approvals/{approval['approval_id']}/decide", json=decision))
    governance = {"policy_refs": policies["policies"], "approval_refs": [approval["approval_id"]]}
    return {**given, "governance": governance}


def test_a_contract_is_drafted_approved_sent_signed_and_executed(outgoing: Server) -> None:
    """The whole way, each step as a task; who approved the sending stands in the evidence of the signature."""
    tokens = [outgoing.token(), outgoing.token(user="olga", role="operator"), outgoing.token(user="ada@example.com")]
    with outgoing.client(tokens[0]) as boss, outgoing.client(tokens[1]) as olga, outgoing.client(tokens[2]) as ada:

        def perform(given: Json) -> Json:
            task = ended(boss, done(boss.post("/api/tasks", json=given))["task_id"])
            assert task["state"] == "succeeded", task
            return task

        join(outgoing, boss, "ada@example.com", email="ada@example.com", name="Ada")
        document = kept(boss)
        given = {"signers": SIGNERS, "title": "Mutual NDA"}
        draft = perform(envelope("signature.prepare", given, resource=about(document)))["result"]
        resource = {"type": "signature", "id": draft["signature_id"]}
        perform(approved(boss, olga, envelope("signature.send", resource=resource)))
        execute = envelope("document.mark_executed", resource={"type": "document", "id": document["id"]})
        too_soon = approved(boss, olga, execute)
        early = ended(boss, done(boss.post("/api/tasks", json=too_soon))["task_id"])
        agreed = {"document_sha256": document["sha256"], "agree": True}
        done(ada.post(f"/api/signatures/{draft['signature_id']}/sign", json=agreed))
        again = envelope("document.mark_executed", resource={"type": "document", "id": document["id"]})
        executed = perform(approved(boss, olga, again))

        signature = done(boss.get(f"/api/signatures/{draft['signature_id']}"))
        record = signature["evidence"][0]["record"]
    assert (early["state"], early["error"]["details"]["reason"]) == ("failed", "NOT_SIGNED")
    assert (signature["status"], executed["result"]["state"]) == ("completed", "executed")
    assert executed["result"]["signers"] == ["Ada"]
    assert "olga" in record


def configure(boss: httpx.Client, remote: DocumensoServer) -> None:
    """Let the tenant sign by this provider."""
    given = {"provider": "documenso", "base_url": f"{remote.url}/api/v2", "credential": {"access_token": TOKEN}}
    done(boss.post("/api/signing-providers", json=given))


def ended_after_a_kill(server: Server, remote: DocumensoServer, task_id: str) -> Json:
    """What another process makes of the task of one that died while the provider was about to answer."""
    server.stop(signal.SIGKILL)
    remote.hangs = False
    remote.released.set()
    server.start()
    with server.client(server.token()) as again:
        return ended(again, task_id)


@pytest.mark.parametrize("out", [True, False])
def test_a_server_that_is_killed_while_a_provider_voids_finds_it_voided(outgoing: Server, *, out: bool) -> None:
    """The provider has done it, and our record of it is made by the next process."""
    remote = DocumensoServer()
    olga_token = outgoing.token(user="olga", role="operator")
    with serving(remote), outgoing.client(outgoing.token()) as boss, outgoing.client(olga_token) as olga:
        configure(boss, remote)
        given = {"signers": SIGNERS, "provider": "documenso"}
        made = envelope("signature.prepare", given, resource=about(kept(boss)))
        draft = ended(boss, done(boss.post("/api/tasks", json=made))["task_id"])["result"]
        resource = {"type": "signature", "id": draft["signature_id"]}
        if out:
            sending = approved(boss, olga, envelope("signature.send", resource=resource))
            ended(boss, done(boss.post("/api/tasks", json=sending))["task_id"])
        voiding = approved(boss, olga, envelope("signature.void", {"reason": "not needed"}, resource=resource))
        remote.done.clear()
        remote.hangs = True
        task_id = done(boss.post("/api/tasks", json=voiding))["task_id"]
        assert remote.reached.wait(PATIENCE_S)

        task = ended_after_a_kill(outgoing, remote, task_id)
    assert (task["state"], task["result"]["status"]) == ("succeeded", "voided")
    assert remote.done == ["cancel" if out else "delete"]


def test_a_server_that_is_killed_while_a_provider_works_has_it_done_once(outgoing: Server) -> None:
    """The intent is kept, the answer never came: the next process looks the request up by our key."""
    remote = DocumensoServer(hangs=True)
    with serving(remote), outgoing.client(outgoing.token()) as boss:
        configure(boss, remote)
        given = {"signers": SIGNERS, "provider": "documenso"}
        made = envelope("signature.prepare", given, resource=about(kept(boss)))
        task_id = done(boss.post("/api/tasks", json=made))["task_id"]
        assert remote.reached.wait(PATIENCE_S)

        task = ended_after_a_kill(outgoing, remote, task_id)
    assert (task["state"], remote.done, len(remote.envelopes)) == ("succeeded", ["create"], 1)
    assert task["result"]["status"] == "created"
