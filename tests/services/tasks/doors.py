"""The doors by which a task is handed over and steered, as one calls them in a test."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx

from tests.harness import wait_for

Json = dict[str, Any]
ENDED = ("succeeded", "failed", "rejected", "cancelled", "dead_letter")


@dataclass
class Door:
    """Calls tools by name; an answer is what the tool gives, or its error."""

    name: str
    call: Callable[[str, Json], Json]

    def submit(self, given: Json) -> Json:
        return self.call("task_submit", {"envelope": given})

    def status(self, task_id: str) -> Json:
        return self.call("task_status", {"task_id": task_id})

    def ended(self, task_id: str) -> Json:
        return wait_for(lambda: (found := self.status(task_id))["state"] in ENDED and found, "the end of the task")


def a2a(client: httpx.Client, tool: str, arguments: Json) -> Json:
    message = {
        "role": "ROLE_USER",
        "messageId": uuid4().hex,
        "parts": [{"data": {"tool": tool, "arguments": arguments}}],
    }
    params: Json = {"message": message}
    if arguments.get("envelope", {}).get("action") == "count.wait":
        params["configuration"] = {"returnImmediately": True}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    task = client.post("/a2a", json=call, headers={"A2A-Version": "1.0"}).json()["result"]["task"]
    parts = task["status"].get("message", {}).get("parts", [])
    refused = [part["data"]["error"] for part in parts if "error" in (part.get("data") or {})]
    if task["status"]["state"] in ("TASK_STATE_FAILED", "TASK_STATE_REJECTED") and "action" not in task.get(
        "metadata", {}
    ):
        return {"error": refused[0]}
    if tool == "task_submit":
        return {"task_id": task["id"], **task["metadata"]}
    return task["artifacts"][0]["parts"][0]["data"]


def seed(client: httpx.Client, tool: str, arguments: Json) -> Json:
    part = {"type": "data", "data": {"tool": tool, "arguments": arguments}}
    task = client.post("/tasks/send", json={"message": {"role": "user", "parts": [part]}}).json()
    parts = task["status"].get("message", {}).get("parts", [])
    refused = [part["data"]["error"] for part in parts if "error" in (part.get("data") or {})]
    if task["status"]["state"] == "failed" and "action" not in task["metadata"]:
        return {"error": refused[0]}
    if tool == "task_submit":
        return {"task_id": task["id"], **task["metadata"]}
    return task["artifacts"][0]["parts"][0]["data"]


def mcp(client: httpx.Client, tool: str, arguments: Json) -> Json:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
    answer = client.post("/mcp", json=call, headers=headers)
    [line] = [line for line in answer.text.splitlines() if line.startswith("data: {")] or [answer.text]
    return json.loads(line.removeprefix("data: "))["result"]["structuredContent"]


def rest(client: httpx.Client, tool: str, arguments: Json) -> Json:
    given = dict(arguments)
    paths = {
        "task_submit": "/api/tasks",
        "task_retry": "/retry",
        "task_cancel": "/cancel",
        "task_transition": "/transition",
    }
    if tool == "task_submit":
        answer = client.post("/api/tasks", json=given)
    elif tool == "task_status":
        answer = client.get(f"/api/tasks/{given['task_id']}")
    else:
        answer = client.post(f"/api/tasks/{given.pop('task_id')}{paths[tool]}", json=given)
    body = answer.json()
    return (
        body["data"]
        if answer.is_success
        else {"error": body | {"details": body.get("details", {}) | {"errors": body.get("errors")}}}
    )
