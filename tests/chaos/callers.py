"""One person at one server of an installation, by every door; an answer is what came back, whole."""

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx

from tests.chaos.nodes import Node
from tests.harness import wait_for
from tests.patience import PATIENCE_S

Json = dict[str, Any]
ENDED = ("succeeded", "failed", "rejected", "cancelled", "dead_letter")


def envelope(action: str, given: Json | None = None, **fields: Any) -> Json:
    """A whole envelope; fields of the same name replace what is there."""
    return {
        "envelope_version": "1",
        "actor": {"id": "admin", "type": "human"},
        "action": action,
        "resource": {"type": "thing", "id": "t-1"},
        "matter": {"id": "matter-1"},
        "idempotency_key": uuid4().hex,
        "request": {"correlation_id": "corr-1"},
        "input": given or {},
        **fields,
    }


def message(*parts: Json, at_once: bool = False, **fields: Any) -> Json:
    """The params of a message over A2A; `at_once` asks for an answer before the work is done."""
    said = {"role": "ROLE_USER", "messageId": uuid4().hex, "parts": list(parts), **fields}
    return {"message": said} | ({"configuration": {"returnImmediately": True}} if at_once else {})


class Caller:
    """Calls one server as an administrator of the tenant `demo`."""

    def __init__(self, node: Node, *, timeout_s: float = PATIENCE_S, user: str = "admin") -> None:
        self.http = node.client(node.token(user=user), timeout_s=timeout_s)

    def rest(self, method: str, path: str, body: Json | None = None, *, key: str | None = None) -> httpx.Response:
        """Call the REST API, under an idempotency key where one is given."""
        headers = {"Idempotency-Key": key} if key else {}
        return self.http.request(method, path, json=body, headers=headers)

    def a2a(self, method: str, params: Json, *, key: str | None = None) -> httpx.Response:
        """Call A2A over JSON-RPC."""
        headers = {"A2A-Version": "1.0"} | ({"Idempotency-Key": key} if key else {})
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.http.post("/a2a", json=body, headers=headers)

    def mcp_answer(self, tool: str, arguments: Json, *, key: str | None = None) -> httpx.Response:
        """Call a tool over MCP."""
        meta = {"_meta": {"dragoman/idempotencyKey": key}} if key else {}
        params = {"name": tool, "arguments": arguments} | meta
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
        return self.http.post("/mcp", json=body, headers=headers)

    @staticmethod
    def mcp_result(answer: httpx.Response) -> Json:
        """Read the result of a tool out of an answer."""
        [line] = [line for line in answer.text.splitlines() if line.startswith("data: {")] or [answer.text]
        return json.loads(line.removeprefix("data: "))["result"]

    def mcp(self, tool: str, arguments: Json, *, key: str | None = None) -> Json:
        """Call a tool over MCP; gives its result."""
        answer = self.mcp_answer(tool, arguments, key=key)
        answer.raise_for_status()
        return self.mcp_result(answer)

    def submit(self, given: Json) -> str:
        """Hand an envelope over and return the id of its task."""
        answer = self.rest("POST", "/api/tasks", given)
        assert answer.status_code == 201, answer.text
        return answer.json()["data"]["task_id"]

    def say(self, work: Json, **options: Any) -> str:
        """Begin a turn of the agent and return the id of its task."""
        answer = self.a2a("SendMessage", message({"data": work}, at_once=True, **options))
        assert "result" in answer.json(), answer.text
        return answer.json()["result"]["task"]["id"]

    def task(self, task_id: str) -> Json:
        """Read a task, delegated or not."""
        answer = self.rest("GET", f"/api/tasks/{task_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def reaches(self, task_id: str, *states: str) -> Json:
        """Wait until the task is in one of these states; any end, where none is named."""
        wanted = states or ENDED
        what = f"task {task_id} to be {' or '.join(wanted)}"
        return self.sees(task_id, lambda task: task["state"] in wanted, what)

    def sees(self, task_id: str, condition: Callable[[Json], bool], what: str = "the task") -> Json:
        """Wait until the task is like this."""

        def look() -> Json | None:
            answer = self.rest("GET", f"/api/tasks/{task_id}")
            found = answer.json().get("data") if answer.status_code == 200 else None
            return found if found and condition(found) else None

        return wait_for(look, what)

    def close(self) -> None:
        """Close its connections."""
        self.http.close()
