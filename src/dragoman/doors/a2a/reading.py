"""What a client sends, checked: every complaint at once, and nothing gets through that the core could not keep."""

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast
from uuid import UUID, uuid4

from dragoman import kit
from dragoman.arguments import read_input
from dragoman.doors.a2a.errors import ContentTypeNotSupported
from dragoman.doors.a2a.wire import AUTH_REQUIRED, KNOWN_STATES, STATES
from dragoman.errors import FieldError, InvalidInput
from dragoman.services.memory.session_context import ShowContext
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import KEY_NAMES, Cursor, Incoming, Json, Task, TaskQuery, find_tool_call

_LONGEST_ID: Final = 200
_MOST_PARTS: Final = 1000
_DEFINED: Final = re.compile(r"_([a-z])")
_PAYLOADS: Final = ("text", "data", "raw", "url")
_SESSION: Final = "session_context"
_ASKED: Final = ("ids", "max_characters")


@dataclass(frozen=True, slots=True)
class Modes:
    """The media types that are read and written here."""

    read: frozenset[str]
    written: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sent:
    """A SendMessage request; `session` is what its sender wants the conversation to begin with, if anything."""

    incoming: Incoming
    at_once: bool
    history_length: int | None
    session: kit.Session | None = None


class Reader:
    """Takes fields out of an object and collects what is wrong with them.

    In ProtoJSON null is the same as a field that is not there, and a field may have the name that the protocol's
    definition has for it.
    """

    def __init__(self, given: Any, where: str = "") -> None:
        self.complaints: list[FieldError] = []
        self._where = where
        if not isinstance(given, dict):
            raise InvalidInput.of(where or "params", "must be an object")
        self._given = _by_json_names(cast("Json", given))

    def complain(self, field: str, message: str) -> None:
        """Note what is wrong."""
        self.complaints.append(FieldError(field=f"{self._where}{field}", message=message))

    def settle(self) -> None:
        """Refuse the request if anything was wrong.

        Raises:
            InvalidInput: with every complaint.
        """
        if self.complaints:
            raise InvalidInput(self.complaints)

    def value(self, name: str) -> Any:
        """As it is."""
        return self._given.get(name)

    def text(self, name: str, *, required: bool = False, longest: int = _LONGEST_ID) -> str | None:
        """An identifier; the empty one is none."""
        value = self.value(name)
        if value is None or value == "":
            if required:
                self.complain(name, "is required")
            return None
        if not isinstance(value, str) or len(value) > longest or not value.isprintable():
            self.complain(name, f"must be text of at most {longest} printable characters")
            return None
        return value

    def number(self, name: str, *, least: int, most: int | None = None) -> int | None:
        """A whole number; ProtoJSON also writes it as text."""
        value = self.value(name)
        if value is None:
            return None
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
            value = int(value)
        within = f"from {least}" + (f" to {most}" if most is not None else "")
        if not isinstance(value, int) or isinstance(value, bool) or value < least or value > (most or 2**31 - 1):
            self.complain(name, f"must be a whole number {within}")
            return None
        return value

    def flag(self, name: str) -> bool:
        """Yes or no; no when it is not there."""
        value = self.value(name)
        if value is not None and not isinstance(value, bool) and value not in ("true", "false"):
            self.complain(name, "must be true or false")
        return value is True or value == "true"

    def object(self, name: str) -> Json:
        """An object; empty when it is not there."""
        value = self.value(name)
        if value is not None and not isinstance(value, dict):
            self.complain(name, "must be an object")
            return {}
        return cast("Json", value) or {}

    def texts(self, name: str) -> list[str]:
        """A list of texts; empty when it is not there."""
        value = self.value(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(one, str) for one in cast("list[Any]", value)):
            self.complain(name, "must be a list of text")
            return []
        return cast("list[str]", value)


def read_send(params: Any, modes: Modes, *, key: str | None, wait_s: float, session_context: bool = False) -> Sent:
    """A message, and what its sender wants of the answer.

    Raises:
        InvalidInput: with every field that is wrong.
        ContentTypeNotSupported: a part is of a type that nobody here reads, or no accepted type is ever written.
    """
    reader = Reader(params)
    if not isinstance(reader.value("message"), dict):
        raise InvalidInput.of("message", "is required, as an object")
    said = Reader(reader.value("message"), "message.")
    configuration = Reader(reader.object("configuration"), "configuration.")
    history_length = configuration.number("historyLength", least=0)
    at_once = configuration.flag("returnImmediately")
    accepted = configuration.texts("acceptedOutputModes")
    metadata = said.object("metadata")
    message: Json = {
        # Required of clients; one that leaves it out loses nothing by it here, as it is no key.
        "id": said.text("messageId") or str(uuid4()),
        "role": "user",
        "parts": _read_parts(said, modes),
    }
    if said.value("role") != "ROLE_USER":
        said.complain("role", "must be ROLE_USER")
    call = find_tool_call(message)
    named = [held.get(name) for held in (metadata, reader.object("metadata")) for name in KEY_NAMES]
    key = _read_key([key, *named, call.key if call is not None else None], said)
    for name, value in (
        ("metadata", metadata),
        ("extensions", said.texts("extensions")),
        ("referenceTaskIds", said.texts("referenceTaskIds")),
    ):
        if value:
            message[name] = value
    # Some clients say these beside the message; what the message says comes first.
    context_id = said.text("contextId") or reader.text("contextId")
    task_id = said.text("taskId") or reader.text("taskId")
    session = _read_session(metadata, context_id, message, said) if session_context and call is None else None
    reader.complaints += said.complaints + configuration.complaints
    reader.settle()
    if accepted and not any(_fits(written, accepted) for written in modes.written):
        raise ContentTypeNotSupported(f"nothing of {', '.join(accepted)[:200]} is written here")
    incoming = Incoming(
        message,
        context_id,
        task_id,
        idempotency_key=key,
        wait_s=0 if at_once else wait_s,
        tool_call=call,
    )
    return Sent(incoming, at_once, history_length, session)


@dataclass(frozen=True, slots=True)
class ListRequest:
    """Which tasks to list and what of them; `total` is how many there are, where the page before has counted them."""

    query: TaskQuery
    history_length: int | None
    artifacts: bool
    total: int | None


def read_list(params: Any) -> ListRequest:
    """Return which tasks to list, and what of them.

    Raises:
        InvalidInput: with every field that is wrong.
    """
    reader = Reader({} if params is None else params)
    limit = reader.number("pageSize", least=1, most=100) or 50
    history_length = reader.number("historyLength", least=0)
    states = since = auth = None
    after, total = None, None
    if (status := reader.text("status")) not in (None, "TASK_STATE_UNSPECIFIED"):
        if status not in KNOWN_STATES:
            reader.complain("status", "must be one of the protocol's task states")
        auth = status == AUTH_REQUIRED
        asked = STATES[State.INPUT_REQUIRED] if auth else status
        states = tuple(state for state, shown in STATES.items() if shown == asked)
    if (at := reader.text("statusTimestampAfter")) is not None:
        since = _moment(at)
        if since is None:
            reader.complain("statusTimestampAfter", "must be a time such as 2026-01-31T12:00:00Z")
    if (token := reader.text("pageToken")) is not None:
        after, total = _read_page_token(token, reader)
    query = TaskQuery(
        limit=limit, context_id=reader.text("contextId"), states=states, auth=auth, changed_since=since, after=after
    )
    artifacts = reader.flag("includeArtifacts")
    reader.settle()
    return ListRequest(query, history_length, artifacts, total)


def page_token(last: Task, total: int) -> str:
    """Return where the next page begins, and how many tasks there are on all pages; opaque to the client."""
    return base64.urlsafe_b64encode(f"{last.status_at.isoformat()} {last.id} {total}".encode()).decode().rstrip("=")


def _read_page_token(token: str, reader: Reader) -> tuple[Cursor | None, int | None]:
    try:
        at, task_id, *total = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode("ascii").split(" ", 2)
        changed_at = _moment(at)
        if changed_at is not None:
            # A token of an earlier release has no total.
            return Cursor(UUID(task_id), changed_at), int(total[0]) if total else None
    except ValueError:
        pass
    reader.complain("pageToken", "must be the nextPageToken of a page before")
    return None, None


def _moment(text: str) -> datetime | None:
    """A time that says where on earth it is."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else None


def _read_parts(said: Reader, modes: Modes) -> list[Json]:
    given = said.value("parts")
    if not isinstance(given, list) or not given:
        said.complain("parts", "must be a list of at least one part")
        return []
    parts = cast("list[Any]", given)
    if len(parts) > _MOST_PARTS:
        said.complain("parts", f"must not be more than {_MOST_PARTS}")
        return []
    return [_read_part(part, f"parts[{place}]", said, modes) for place, part in enumerate(parts)]


def _read_part(given: Any, where: str, said: Reader, modes: Modes) -> Json:
    if not isinstance(given, dict):
        said.complain(where, "must be an object")
        return {}
    part = cast("Json", given)
    payloads = [name for name in _PAYLOADS if name in part and (part[name] is not None or name == "data")]
    if len(payloads) != 1:
        said.complain(where, "must have exactly one of text, data, raw and url")
        return {}
    payload = payloads[0]
    media_type = _media_type(part, where, said)
    if media_type and not _fits(media_type.partition(";")[0].strip().lower(), modes.read):
        raise ContentTypeNotSupported(f"{media_type[:100]!r} is not read here", media_type=media_type[:100])
    labels = _labels(part, media_type, where, said)
    if payload == "data":
        return {"kind": "data", "data": part["data"], **labels}
    if not isinstance(part[payload], str):
        said.complain(f"{where}.{payload}", "must be text")
        return {}
    if payload == "text":
        return {"kind": "text", "text": part["text"], **labels}
    file: Json = {"kind": "file", "mime": "application/octet-stream", **labels}
    return file | (
        {"uri": part["url"]} if payload == "url" else {"data": read_base64(part["raw"], f"{where}.raw", said)}
    )


def _labels(part: Json, media_type: str | None, where: str, said: Reader) -> Json:
    """What stands beside the payload of any part."""
    name, metadata = part.get("filename"), part.get("metadata")
    if name is not None and not isinstance(name, str):
        said.complain(f"{where}.filename", "must be text")
        name = None
    if metadata is not None and not isinstance(metadata, dict):
        said.complain(f"{where}.metadata", "must be an object")
        metadata = None
    labels = {"name": name[:500] if name else None, "mime": media_type, "metadata": cast("Json | None", metadata)}
    return {label: value for label, value in labels.items() if value}


def _media_type(part: Json, where: str, said: Reader) -> str | None:
    metadata = part.get("metadata")
    # Some clients name the type in the part's metadata.
    elsewhere = cast("Json", metadata).get("contentType") if isinstance(metadata, dict) else None
    given = _by_json_names(part).get("mediaType") or elsewhere
    if given is not None and not isinstance(given, str):
        said.complain(f"{where}.mediaType", "must be text")
        return None
    return given.strip() if given else None


def read_base64(raw: str, where: str, said: Reader) -> str:
    """The same bytes as the core keeps them: ProtoJSON reads both alphabets, padded or not."""
    try:
        data = base64.b64decode(raw.replace("-", "+").replace("_", "/") + "=" * (-len(raw) % 4), validate=True)
    except (ValueError, binascii.Error):
        said.complain(where, "must be base64")
        return ""
    return base64.b64encode(data).decode("ascii")


def _by_json_names(given: Json) -> Json:
    if "_" not in "".join(given):
        return given
    defined = {name: value for name, value in given.items() if "_" in name}
    renamed = {_DEFINED.sub(lambda letter: letter[1].upper(), name): value for name, value in defined.items()}
    return renamed | {name: value for name, value in given.items() if value is not None}


def _read_key(given: list[Any], said: Reader) -> str | None:
    """The one idempotency key, wherever it stands: the header, the metadata, or beside the name of a tool."""
    keys = [key for key in given if key is not None]
    if not all(isinstance(key, str) for key in keys):
        said.complain("metadata.idempotencyKey", "must be text")
    elif len(set(keys)) > 1:
        said.complain("metadata.idempotencyKey", "must be the same wherever it is given")
    elif keys:
        return keys[0]
    return None


def _read_session(metadata: Json, context_id: str | None, message: Json, said: Reader) -> kit.Session:
    """What the conversation is about and where it belongs; a context that its client names is a session of memory.

    Other fields than those that are asked with are left alone: some clients send back what a task carried.
    """
    about = "\n".join(part["text"] for part in message["parts"] if part.get("kind") == "text")
    given: Any = metadata.get(_SESSION)
    fields = cast("Json", given) if isinstance(given, dict) else {}
    asked: Json = {name: fields[name] for name in _ASKED if name in fields}
    try:
        wanted = read_input(ShowContext, asked)
    except InvalidInput as error:
        for one in error.details["errors"]:
            said.complain(f"metadata.{_SESSION}.{one['field']}", one["message"])
        return kit.Session()
    ids = wanted.ids.model_dump(exclude_none=True)
    return kit.Session(context_id or "", about, ids, wanted.max_characters)


def _fits(media_type: str, patterns: frozenset[str] | list[str]) -> bool:
    kind = media_type.partition("/")[0]
    return media_type in patterns or f"{kind}/*" in patterns or "*/*" in patterns or "*" in patterns
