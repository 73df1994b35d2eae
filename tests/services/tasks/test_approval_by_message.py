"""An approval has a face on A2A: a message to the task that waits for it."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from tests.harness import Server, wait_for
from tests.services.tasks.envelopes import envelope


def send(client: httpx.Client, data: dict[str, Any], task_id: str | None = None) -> dict[str, Any]:
    message = {"role": "ROLE_USER", "messageId": uuid4().hex, "parts": [{"data": data}]}
    params = {"message": message | ({"taskId": task_id} if task_id else {})}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    return client.post("/a2a", json=call, headers={"A2A-Version": "1.0"}).json()


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
