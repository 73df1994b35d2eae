"""Push configurations and notifications on the wire of A2A 1.0 and 0.3."""

import base64
import re
from collections.abc import Sequence
from typing import Any, Final

import orjson

from dragoman.doors.a2a.negotiation import OLDER, VERSION
from dragoman.doors.a2a.reading import Reader
from dragoman.doors.a2a.wire import event_json, task_json
from dragoman.doors.a2a.wire_03 import task_03
from dragoman.infra.outbound.signing import signing_key
from dragoman.services.push.models import NewPushConfig, PushConfig
from dragoman.services.push.ports import Shape
from dragoman.services.tasks.models import Json, LoggedEvent, Task

_LONGEST_URL: Final = 2048
_LONGEST_SECRET: Final = 4096
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9!#$%&'*+.^_`|~-]{0,63}")


def read_push(given: Any, where: str, version: str) -> NewPushConfig:
    """A configuration as a client gives it.

    Raises:
        InvalidInput: with every field that is wrong.
    """
    reader = Reader(given, where)
    url = reader.text("url", required=True, longest=_LONGEST_URL)
    config_id = reader.text("id")
    token = _secret(reader, "token")
    said = Reader(reader.object("authentication"), f"{where}authentication.")
    # 0.3 names several schemes for the one credential; the first is meant.
    scheme = said.text("scheme") or next(iter(said.texts("schemes")), None)
    credentials = _secret(said, "credentials")
    if scheme is not None and not _SCHEME.fullmatch(scheme):
        said.complain("scheme", "must be the name of an HTTP authentication scheme, such as Bearer")
    if credentials is not None and scheme is None:
        said.complain("scheme", "is required with credentials")
    if token is not None:
        try:
            signing_key(token)
        except ValueError as error:
            reader.complain("token", f"begins with whsec_ and is no signing secret: {error}")
    reader.complaints += said.complaints
    reader.settle()
    return NewPushConfig(url or "", version, config_id, token, scheme, credentials)


def read_create(params: Any, version: str) -> tuple[str, NewPushConfig]:
    """The task that is meant, and the configuration: in the request itself, or within it as before 1.0.

    Raises:
        InvalidInput: with every field that is wrong.
    """
    reader = Reader(params)
    ref = reader.text("taskId", required=True)
    reader.settle()
    within = reader.value("pushNotificationConfig")
    new = read_push(params, "", version) if within is None else read_push(within, "pushNotificationConfig.", version)
    return ref or "", new


def read_sent_push(params: Any, version: str) -> NewPushConfig | None:
    """The configuration that comes with a message, if one does.

    Raises:
        InvalidInput: with every field that is wrong.
    """
    given = Reader(params).object("configuration")
    if not given:
        return None
    configuration = Reader(given)
    for name in ("taskPushNotificationConfig", "pushNotificationConfig"):
        if (given := configuration.value(name)) is not None:
            return read_push(given, f"configuration.{name}.", version)
    return None


def read_one(params: Any) -> tuple[str, str]:
    """The task and the configuration that are meant.

    Raises:
        InvalidInput: with every field that is wrong.
    """
    reader = Reader(params)
    ref, config_id = reader.text("taskId", required=True), reader.text("id", required=True)
    reader.settle()
    return ref or "", config_id or ""


def read_page(params: Any) -> tuple[str, int, str | None]:
    """The task that is meant, how many to show, and after which.

    Raises:
        InvalidInput: with every field that is wrong.
    """
    reader = Reader(params)
    ref = reader.text("taskId", required=True)
    # A size of 0 is none at all in this protocol.
    limit = reader.number("pageSize", least=0, most=100) or 100
    after = None
    if (token := reader.text("pageToken", longest=2000)) is not None:
        try:
            after = base64.urlsafe_b64decode(token.encode("ascii")).decode()
        except ValueError:
            reader.complain("pageToken", "must be the nextPageToken of a page before")
    reader.settle()
    return ref or "", limit, after


def push_json(config: PushConfig) -> Json:
    """A configuration without its secrets; that it has a scheme is told, what goes with it is not."""
    shown: Json = {"taskId": str(config.task_id), "id": config.id, "url": config.url}
    return shown | {"authentication": {"scheme": config.scheme}} if config.scheme else shown


def page_json(found: list[PushConfig], limit: int) -> Json:
    """A page, when one more than the limit was asked for."""
    shown = found[:limit]
    more = len(found) > limit
    return {
        "configs": [push_json(config) for config in shown],
        "nextPageToken": base64.urlsafe_b64encode(shown[-1].id.encode()).decode() if more else "",
    }


def push_03(newer: Json) -> Json:
    """A configuration as 0.3 has it."""
    inner = {name: newer[name] for name in ("id", "url")}
    if "authentication" in newer:
        inner["authentication"] = {"schemes": [newer["authentication"]["scheme"]]}
    return {"taskId": newer["taskId"], "pushNotificationConfig": inner}


def read_id_03(params: Any) -> Json:
    """In 0.3 the task is called `id`.

    Raises:
        InvalidInput: there is none.
    """
    reader = Reader(params)
    newer = {"taskId": reader.text("id", required=True), "id": reader.text("pushNotificationConfigId")}
    reader.settle()
    return newer


def events_10(task: Task, happenings: Sequence[LoggedEvent]) -> list[tuple[int, bytes]]:
    """Each event by itself, as a stream shows it."""
    events = ((happening.seq, event_json(happening, task)) for happening in happenings)
    return [(seq, orjson.dumps(event)) for seq, event in events if event is not None]


def events_03(task: Task, happenings: Sequence[LoggedEvent]) -> list[tuple[int, bytes]]:
    """The task as it stands now: 0.3 tells no events, so that one task speaks for all that led to it."""
    visible = [happening.seq for happening in happenings if event_json(happening, task) is not None]
    return [(visible[-1], orjson.dumps(task_03(task_json(task))))] if visible else []


SHAPES: Final[dict[str, Shape]] = {VERSION: events_10, OLDER: events_03}


def _secret(reader: Reader, name: str) -> str | None:
    """Something that goes into a header."""
    value = reader.text(name, longest=_LONGEST_SECRET)
    if value is not None and (not value.isascii() or value != value.strip()):
        reader.complain(name, "must be plain ASCII, without spaces around it")
        return None
    return value
