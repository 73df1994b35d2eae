"""An explicit tool call, the same by every shape of A2A."""

from collections.abc import Callable
from typing import Any

from tests.doors.a2a.calling import A2A, tool

Call = Callable[..., dict[str, Any]]


def by_message(caller: A2A) -> Call:
    """A tool call over A2A 1.0: the output, or the error of the failed task."""

    def call(name: str, **arguments: Any) -> dict[str, Any]:
        task = caller.call("SendMessage", tool(name, arguments))["task"]
        if task["status"]["state"] == "TASK_STATE_FAILED":
            return next(part["data"] for part in task["status"]["message"]["parts"] if "data" in part)
        return task["artifacts"][0]["parts"][0]["data"]

    return call


def by_seed_path(caller: A2A) -> Call:
    """The same by `POST /tasks/send`."""

    def call(name: str, **arguments: Any) -> dict[str, Any]:
        part = {"type": "data", "data": {"tool": name, "arguments": arguments}}
        task = caller.http.post("/tasks/send", json={"message": {"role": "user", "parts": [part]}}).json()
        if task["status"]["state"] == "failed":
            return next(part["data"] for part in task["status"]["message"]["parts"] if part["type"] == "data")
        return task["artifacts"][0]["parts"][0]["data"]

    return call
