"""A2A 0.1, which the plain paths speak: what it sends, as 1.0 has it, and tasks as it shows them."""

from collections.abc import Iterable
from typing import Any, Final

from dragoman.doors.a2a.errors import PushNotSupported, to_rpc_error
from dragoman.doors.a2a.reading import Reader
from dragoman.doors.a2a.tagged import lower, read_message, rests, tag_message, tag_part, tag_status
from dragoman.doors.a2a.wire import STATES, event_json, task_json, timestamp
from dragoman.errors import DragomanError
from dragoman.services.tasks.events import StatusEvent
from dragoman.services.tasks.models import Json, LoggedEvent, Task

_TAG: Final = "type"
# States that 0.1 does not have: how they are shown, while the metadata says what they were.
_OLDER_STATES: Final = {"rejected": "failed", "auth-required": "input-required"}
_OF_MESSAGE: Final = ("messageId", "role", "parts", "metadata")


def read_send_01(params: Any) -> tuple[str | None, Json]:
    """The id that the caller chose for the task, and the params as 1.0 has them.

    Raises:
        InvalidInput: with the fields that are wrong.
        PushNotSupported: it asks for push notifications.
    """
    reader = Reader(params)
    alias, session = reader.text("id"), reader.text("sessionId") or reader.text("contextId")
    about = reader.object("metadata")
    reader.number("historyLength", least=0)
    reader.settle()
    if reader.value("pushNotification") is not None:
        raise PushNotSupported
    message = read_message(params)
    if about and isinstance(message.get("metadata", {}), dict):
        message["metadata"] = {**about, **message.get("metadata", {})}
    if session is not None:
        message["contextId"] = session
    newer: Json = {"message": message, "taskId": reader.value("taskId")}
    if reader.value("historyLength") is not None:
        newer["configuration"] = {"historyLength": reader.value("historyLength")}
    return alias, newer


def task_01(task: Task, transitions: list[Json], *, history_length: int | None = None) -> Json:
    """The whole task, with the steps that it took."""
    newer = task_json(task, history_length=history_length)
    status, metadata = _status(newer["status"])
    shown: Json = {
        "id": task.alias or newer["id"],
        "sessionId": task.context_id,
        "status": status,
        "artifacts": [_artifact(artifact, place) for place, artifact in enumerate(newer.get("artifacts", []))],
    }
    if "history" in newer:
        shown["history"] = [_message(tag_message(message, _TAG)) for message in newer["history"]]
    return shown | {"metadata": {**task.metadata, "transitions": transitions, **metadata}}


def transitions_of(happenings: Iterable[LoggedEvent]) -> list[Json]:
    """The steps between states that this version can tell apart; the first is from nothing."""
    steps: list[Json] = []
    for happening in happenings:
        if not isinstance(happening.event, StatusEvent):
            continue
        to = lower(STATES[happening.event.to])
        before = steps[-1]["to"] if steps else None
        if to != before:
            steps.append({"seq": happening.seq, "from": before, "to": to, "at": timestamp(happening.at)})
    return steps


def rpc_error_01(error: DragomanError) -> Json:
    """The `error` of a response: its data is an object in this version."""
    told = to_rpc_error(error)
    return {**told, "data": {"code": error.code, "details": told["data"]}}


class Events01:
    """Shows the events of one task, in order: artifacts are numbered as they appear."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._places: dict[str, int] = {}

    def show(self, happening: LoggedEvent) -> Json | None:
        """One event; None for what the protocol does not show."""
        newer = event_json(happening, self._task)
        if newer is None:
            return None
        shown: Json = {"id": self._task.alias or str(self._task.id), "sessionId": self._task.context_id}
        if (update := newer.get("artifactUpdate")) is not None:
            artifact = update["artifact"]
            place = self._places.setdefault(artifact["artifactId"], len(self._places))
            chunk = {"append": update["append"], "lastChunk": update["lastChunk"]}
            return shown | {"artifact": _artifact(artifact, place) | chunk}
        update = newer["statusUpdate"]
        status, metadata = _status(update["status"])
        metadata |= update.get("metadata", {})
        # A question that was answered since is not the end of the stream.
        final = rests(status["state"]) and happening.seq >= self._task.seq
        return shown | {"status": status, "final": final} | ({"metadata": metadata} if metadata else {})


def _status(newer: Json) -> tuple[Json, Json]:
    status = tag_status(newer, _TAG)
    if "message" in status:
        status["message"] = _message(status["message"])
    state = status["state"]
    if state in _OLDER_STATES:
        return {**status, "state": _OLDER_STATES[state]}, {"state": state}
    return status, {}


def _message(tagged: Json) -> Json:
    return {name: tagged[name] for name in _OF_MESSAGE if name in tagged}


def _artifact(newer: Json, place: int) -> Json:
    shown = {name: newer[name] for name in ("name", "description") if name in newer}
    return shown | {"parts": [tag_part(part, _TAG) for part in newer["parts"]], "index": place}
