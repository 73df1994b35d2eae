"""Long operations from the command line: handed over as an A2A task and followed, however long they take."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, cast
from uuid import uuid4

from dragoman.doors.cli.endings import Refused
from dragoman.doors.cli.session import Asked, connect
from dragoman.operations import Binding

Json = dict[str, Any]
_POLL_S: Final = 0.5
_UNDER_WAY = ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
_NOT_ALLOWED = ("UNAUTHENTICATED", "UNAUTHORIZED")


def follow(binding: Binding, given: Mapping[str, Any], asked: Asked, tell: Callable[[str], None]) -> Json:
    """The data of an operation, once it is done; `tell` hears how far it is, whenever that is news.

    Raises:
        Ending: it failed, or the server does not answer. The work goes on without us in the latter case.
    """
    call = {"tool": binding.operation.name.replace(".", "_"), "arguments": dict(given)}
    message = {"role": "ROLE_USER", "messageId": uuid4().hex, "parts": [{"data": call}]}
    sent = {"message": message, "configuration": {"returnImmediately": True}}
    task: Json = connect(asked).exchange("POST", "/a2a/rest/message:send", sent, idempotency_key=asked.idempotency_key)[
        "task"
    ]
    told = ""
    while task["status"]["state"] in _UNDER_WAY:
        if (news := _news(task)) and news != told:
            told = news
            tell(news)
        time.sleep(_POLL_S)
        # Connected anew: a token of the keyboard lasts for minutes, the work may take longer.
        task = connect(asked).exchange("GET", f"/a2a/rest/tasks/{task['id']}")
    if task["status"]["state"] != "TASK_STATE_COMPLETED":
        raise _refusal(task)
    return cast("Json", task["artifacts"][0]["parts"][0]["data"])


def _news(task: Json) -> str:
    text = "".join(part.get("text", "") for part in _parts(task))
    percent = task.get("metadata", {}).get("percent")
    return f"{percent:3.0f} %  {text}" if text and percent is not None else text


def _refusal(task: Json) -> Refused:
    error = next((part["data"]["error"] for part in _parts(task) if "data" in part), None)
    if error is None:
        return Refused({"code": "FAILED", "detail": f"the task {task['id']} ended as {task['status']['state']}"})
    details = cast("Json", error.get("details") or {})
    problem = {"code": error["code"], "detail": error["message"], "details": details}
    if error["code"] in _NOT_ALLOWED:
        problem["status"] = 403
    return Refused({**problem, "errors": details.get("errors", [])})


def _parts(task: Json) -> list[Json]:
    return cast("list[Json]", task["status"].get("message", {}).get("parts", []))
