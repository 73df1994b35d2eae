"""A task as A2A 1.0 shows it. The core keeps messages and parts as kit writes them; here alone both are known."""

from datetime import UTC, datetime
from typing import Any, Final

from dragoman.services.tasks.events import ArtifactEvent, ProgressEvent, StatusEvent
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Json, LoggedEvent, Reply, Task

STATES: Final[dict[State, str]] = {
    State.REQUESTED: "TASK_STATE_SUBMITTED",
    State.VALIDATED: "TASK_STATE_SUBMITTED",
    State.QUEUED: "TASK_STATE_SUBMITTED",
    State.IN_PROGRESS: "TASK_STATE_WORKING",
    State.INPUT_REQUIRED: "TASK_STATE_INPUT_REQUIRED",
    State.SUCCEEDED: "TASK_STATE_COMPLETED",
    State.FAILED: "TASK_STATE_FAILED",
    State.DEAD_LETTER: "TASK_STATE_FAILED",
    State.REJECTED: "TASK_STATE_REJECTED",
    State.CANCELLED: "TASK_STATE_CANCELED",
}
# To the core it is one of the reasons to wait for its caller.
AUTH_REQUIRED: Final = "TASK_STATE_AUTH_REQUIRED"
KNOWN_STATES: Final = frozenset(STATES.values()) | {AUTH_REQUIRED}
_LABELS: Final = (("name", "filename"), ("mime", "mediaType"), ("metadata", "metadata"))
_ROLES: Final = {"user": "ROLE_USER", "agent": "ROLE_AGENT"}


def task_json(task: Task, *, history_length: int | None = None, artifacts: bool = True) -> Json:
    """The whole task, with the last messages of its history; 0 is none, None is all."""
    ref = str(task.id)
    shown: Json = {
        "id": ref,
        "contextId": task.context_id,
        "status": _status(task, ref, task.state, task.status_at, task.message, task.error),
    }
    if task.wants_auth:
        shown["status"]["state"] = AUTH_REQUIRED
    if artifacts and task.artifacts:
        shown["artifacts"] = [artifact_json(artifact) for artifact in task.artifacts]
    said = task.history if history_length is None else task.history[len(task.history) - history_length :]
    if history_length is not None and history_length >= len(task.history):
        said = task.history
    if said:
        shown["history"] = [_message(message, task, ref) for message in said]
    if task.metadata:
        shown["metadata"] = task.metadata
    return shown


def reply_json(reply: Reply) -> Json:
    """A message that answers without a task."""
    said = reply.message
    parts = [part_json(part) for part in said["parts"]]
    return {"messageId": said["id"], "contextId": reply.context_id, "role": _ROLES[said["role"]], "parts": parts}


def event_json(happening: LoggedEvent, task: Task) -> Json | None:
    """One event of a stream; None for what the protocol does not show."""
    event = happening.event
    match event:
        case StatusEvent(before, to):
            if before is not None and STATES[before] == STATES[to]:
                return None
            ref = str(task.id)
            status = _status(task, ref, to, happening.at, event.message, event.error)
            if event.auth:
                status["state"] = AUTH_REQUIRED
            return {"statusUpdate": {"taskId": ref, "contextId": task.context_id, "status": status}}
        case ArtifactEvent(artifact, append, last):
            update: Json = {
                "taskId": str(task.id),
                "contextId": task.context_id,
                "artifact": artifact_json(artifact),
                "append": append,
                "lastChunk": last,
            }
            return {"artifactUpdate": update}
        case ProgressEvent():
            return {"statusUpdate": _progress(event, happening, task)}
        case _:
            return None


def artifact_json(artifact: Json) -> Json:
    """What a task made."""
    shown: Json = {
        "artifactId": artifact["id"],
        "name": artifact["name"],
        "parts": [part_json(part) for part in artifact["parts"]],
    }
    if artifact.get("description"):
        shown["description"] = artifact["description"]
    return shown


def part_json(part: Json) -> Json:
    """One piece of content."""
    match part["kind"]:
        case "text":
            shown: Json = {"text": part["text"]}
        case "data":
            shown = {"data": part["data"]}
        case "file":
            shown = {"url": part["uri"]} if part.get("uri") is not None else {"raw": part["data"]}
        case _:
            return {"data": part}
    for label, name in _LABELS:
        if part.get(label):
            shown[name] = part[label]
    return shown


def timestamp(at: datetime) -> str:
    """RFC 3339 in UTC, with milliseconds."""
    utc = at if at.tzinfo is UTC else at.astimezone(UTC)
    return utc.isoformat(timespec="milliseconds")[:-6] + "Z"


def _message(message: Json, task: Task, ref: str) -> Json:
    shown: Json = {
        "messageId": message["id"],
        "contextId": task.context_id,
        "taskId": ref,
        "role": _ROLES[message["role"]],
        "parts": [part_json(part) for part in message["parts"]],
    }
    for name in ("metadata", "extensions", "referenceTaskIds"):
        if message.get(name):
            shown[name] = message[name]
    return shown


def _status(task: Task, ref: str, state: State, at: datetime, message: Json | None, error: Json | None) -> Json:
    shown: Json = {"state": STATES[state], "timestamp": timestamp(at)}
    told = error if state in (State.FAILED, State.REJECTED, State.DEAD_LETTER) else None
    if message is not None or told is not None:
        said = _message(message or _spoken(f"{ref}:{state.value}", (told or {}).get("message", "")), task, ref)
        if told is not None:
            said["parts"] = [*said["parts"], {"data": {"error": told}}]
        shown["message"] = said
    return shown


def _progress(progress: ProgressEvent, happening: LoggedEvent, task: Task) -> Json:
    ref = str(task.id)
    spoken = _spoken(f"{ref}:{happening.seq}", progress.text)
    update: Json = {
        "taskId": ref,
        "contextId": task.context_id,
        "status": {
            "state": STATES[State.IN_PROGRESS],
            "timestamp": timestamp(happening.at),
            "message": _message(spoken, task, ref),
        },
    }
    if (percent := progress.percent) is not None:
        update["metadata"] = {"percent": percent}
    return update


def _spoken(message_id: str, text: str) -> dict[str, Any]:
    return {"id": message_id, "role": "agent", "parts": [{"kind": "text", "text": text}]}
