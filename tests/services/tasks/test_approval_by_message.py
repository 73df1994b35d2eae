"""An approval has a face on A2A: a message to the task that waits for it."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from tests.backstage import records_of
from tests.harness import Server, wait_for
from tests.services.tasks.envelopes import ended, envelope, submit


def send(
    client: httpx.Client, data: dict[str, Any], task_id: str | None = None, *, key: str | None = None
) -> dict[str, Any]:
    message = {"role": "ROLE_USER", "messageId": uuid4().hex, "parts": [{"data": data}]}
    params = {"message": message | ({"taskId": task_id} if task_id else {})}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    return client.post(
        "/a2a", json=call, headers={"A2A-Version": "1.0"} | ({"Idempotency-Key": key} if key else {})
    ).json()


def test_a_message_to_the_waiting_task_approves_it_unless_its_sender_is_a_party(
    counting: Server, outside: Path
) -> None:
    name = f"by-message-{uuid4().hex[:8]}"
    given = envelope("count.secret", {"name": name})
    asked = {"action": given["action"], "resource": given["resource"], "matter_id": "matter-1", "input": given["input"]}
    with (
        counting.client(counting.token()) as admin,
        counting.client(counting.token(user="bob", role="operator")) as bob,
    ):
        approval = admin.post("/api/approvals", json=asked).json()["data"]
        refs = {"policy_refs": ["contracts-approval"], "approval_refs": [approval["approval_id"]]}
        task = send(admin, {"tool": "task_submit", "arguments": {"envelope": given | {"governance": refs}}})["result"][
            "task"
        ]

        own = send(admin, {"decision": "approve"}, task["id"])
        approved = send(bob, {"decision": "approve", "reason": "seen"}, task["id"])["result"]["task"]

        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert own["code"] == "SELF_APPROVAL"
        assert approved["id"] == task["id"]
        view = wait_for(
            lambda: (found := admin.get(f"/api/tasks/{task['id']}").json()["data"])["state"] == "succeeded" and found,
            "the task after its approval",
        )
    assert [decision["by"] for one in view["governance"]["approvals"] for decision in one["decisions"]] == ["bob"]
    assert len((outside / name).read_text().splitlines()) == 1


def test_a_decision_or_an_answer_sent_again_with_its_key_is_taken_once_whatever_became_of_the_task(
    counting: Server, outside: Path
) -> None:
    name, keys = f"again-{uuid4().hex[:8]}", [uuid4().hex, uuid4().hex]
    secret = envelope("count.secret", {"name": name}, governance={"policy_refs": ["contracts-approval"]})
    with (
        counting.client(counting.token()) as admin,
        counting.client(counting.token(user="bob", role="operator")) as bob,
    ):
        asked = {"action": secret["action"], "resource": secret["resource"], "matter_id": "matter-1",
                 "input": secret["input"]}  # fmt: skip
        approval = admin.post("/api/approvals", json=asked).json()["data"]
        refs = {"policy_refs": ["contracts-approval"], "approval_refs": [approval["approval_id"]]}
        guarded = submit(admin, secret | {"governance": refs})["task_id"]
        asks = submit(admin, envelope("count.ask"))["task_id"]
        ended(admin, asks, within=("input_required",))
        decision, answer = {"decision": "approve"}, {"input": {"answer": "red"}}

        first = [send(bob, decision, guarded, key=keys[0]), send(admin, answer, asks, key=keys[1])]
        ends = [ended(admin, task_id)["state"] for task_id in (guarded, asks)]
        again = [send(bob, decision, guarded, key=keys[0]), send(admin, answer, asks, key=keys[1])]
        late = send(admin, answer, asks)

    assert ends == ["succeeded", "succeeded"]
    assert [said["result"]["task"]["id"] for said in first + again] == [guarded, asks] * 2
    assert late["error"]["data"][0]["reason"] == "UNSUPPORTED_OPERATION"
    assert len((outside / name).read_text().splitlines()) == 1
    assert [(one["operation"], one["code"]) for one in records_of(counting, asks, outcome="failed")] == [
        ("message.send", "CONFLICT")
    ]
