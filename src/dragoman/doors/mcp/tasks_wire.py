"""A task as MCP shows it: as the result of the tool that began it, and as the tasks extension has it."""

from datetime import UTC, datetime
from typing import Any, Final, cast

import orjson

from dragoman.doors.mcp.content import content_of
from dragoman.doors.mcp.questions import Asking
from dragoman.doors.mcp.wire import INTERNAL_ERROR, Json, succeeded
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Task

POLL_MS: Final = 1000
_STATUS: Final[dict[State, str]] = {
    State.REQUESTED: "working",
    State.VALIDATED: "working",
    State.QUEUED: "working",
    State.IN_PROGRESS: "working",
    State.INPUT_REQUIRED: "input_required",
    State.SUCCEEDED: "completed",
    # To MCP a tool that failed has completed, with a result that says so.
    State.FAILED: "completed",
    State.DEAD_LETTER: "completed",
    State.REJECTED: "completed",
    State.CANCELLED: "cancelled",
}


def task_result(task: Task) -> Json:
    """How the task stands, as the result of a tool; a task that ran a named tool has that tool's output."""
    if (made := _made(task)) is not None:
        output: Any = made[0].get("data")
        if len(made) == 1 and made[0]["kind"] == "data" and isinstance(output, dict):
            return succeeded(orjson.dumps(output).decode(), cast("Json", output))
        return {"content": [content_of(part) for part in made], "isError": False}
    shown: Json = {"task_id": str(task.id), "state": task.state.value, "text": spoken(task), "artifacts": []}
    content: list[Json] = [{"type": "text", "text": shown["text"]}] if shown["text"] else []
    for artifact in task.artifacts:
        shown["artifacts"].append({"name": artifact["name"], "parts": artifact["parts"]})
        content += [content_of(part) for part in artifact["parts"]]
    if task.state is State.INPUT_REQUIRED:
        content.append({"type": "text", "text": f"To answer, call this tool again with task_id {task.id}."})
    error = _error(task)
    if error is not None:
        shown = {"error": error, "task_id": str(task.id), "state": task.state.value}
        content = [{"type": "text", "text": f"{error['code']}: {error['message']}"}]
    return {
        "content": content or [{"type": "text", "text": task.state.value}],
        "structuredContent": shown,
        "isError": error is not None,
    }


def task_json(task: Task) -> Json:
    """The task without what came of it: what a tool that began it answers."""
    shown: Json = {
        "taskId": str(task.id),
        "status": "failed" if _crashed(task) else _STATUS[task.state],
        "createdAt": _time(task.created_at),
        "lastUpdatedAt": _time(task.status_at),
        "ttlMs": None,
        "pollIntervalMs": POLL_MS,
    }
    said = (task.error or {}).get("message") or spoken(task)
    return shown | {"statusMessage": said} if said else shown


def detailed_task_json(task: Task) -> Json:
    """The task with what came of it, or what it waits for."""
    shown = task_json(task)
    match shown["status"]:
        case "completed":
            shown["result"] = task_result(task)
        case "failed":
            shown["error"] = {"code": INTERNAL_ERROR, "message": (task.error or {}).get("message", "")}
        case "input_required":
            shown["inputRequests"] = Asking.of(task, spoken(task), lasting=True).requests()
        case _:
            pass
    return shown


def spoken(task: Task) -> str:
    """The words of its last message."""
    parts: list[Json] = (task.message or {}).get("parts", [])
    return "\n".join(part["text"] for part in parts if part["kind"] == "text")


def _error(task: Task) -> Json | None:
    if task.state is State.CANCELLED:
        return {
            "code": "CONFLICT",
            "message": "the task was cancelled",
            "details": {"reason": "CANCELLED"},
            "retryable": False,
        }
    if task.state not in (State.FAILED, State.DEAD_LETTER, State.REJECTED):
        return None
    unknown: Json = {"code": "INTERNAL_ERROR", "message": "", "details": {}, "retryable": False}
    return unknown | (task.error or {})


def _made(task: Task) -> list[Json] | None:
    """What came of the tool that the first message names."""
    parts: list[Json] = task.history[0]["parts"] if task.history else []
    named = next((part["data"].get("tool") for part in parts if isinstance(part.get("data"), dict)), None)
    made = task.artifacts[0] if task.state is State.SUCCEEDED and len(task.artifacts) == 1 else None
    if named is None or made is None or made["name"] != named:
        return None
    return cast("list[Json]", made["parts"]) or None


def _crashed(task: Task) -> bool:
    return task.state in (State.FAILED, State.DEAD_LETTER) and (task.error or {}).get("code") == "INTERNAL_ERROR"


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
