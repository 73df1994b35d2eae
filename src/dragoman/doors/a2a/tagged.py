"""What the versions before 1.0 share: parts that say what they are, and states and roles in small letters."""

from typing import Any, Final, cast

from dragoman.doors.a2a.reading import Reader, read_base64
from dragoman.errors import InvalidInput
from dragoman.services.tasks.models import Json

_RESTING: Final = frozenset({"completed", "failed", "canceled", "rejected", "input-required", "auth-required"})


def lower(name: str) -> str:
    """`TASK_STATE_INPUT_REQUIRED` is `input-required`, and `ROLE_USER` is `user`."""
    return name.removeprefix("TASK_STATE_").removeprefix("ROLE_").lower().replace("_", "-")


def rests(state: str) -> bool:
    """Whether a stream ends with this state."""
    return state in _RESTING


def tag_part(part: Json, tag: str) -> Json:
    """A part of 1.0, with its kind under the name that the version has for it."""
    about: Json = {"metadata": part["metadata"]} if "metadata" in part else {}
    if "text" in part:
        return {tag: "text", "text": part["text"], **about}
    if "data" in part:
        data = part["data"]
        return {tag: "data", "data": data if isinstance(data, dict) else {"value": data}, **about}
    file: Json = {"uri": part["url"]} if "url" in part else {"bytes": part["raw"]}
    for name, older in (("filename", "name"), ("mediaType", "mimeType")):
        if part.get(name):
            file[older] = part[name]
    return {tag: "file", "file": file, **about}


def tag_message(message: Json, tag: str) -> Json:
    """A message of 1.0."""
    return {**message, "role": lower(message["role"]), "parts": [tag_part(part, tag) for part in message["parts"]]}


def tag_status(status: Json, tag: str) -> Json:
    """A status of 1.0."""
    shown = {**status, "state": lower(status["state"])}
    if "message" in status:
        shown["message"] = tag_message(status["message"], tag)
    return shown


def read_message(params: Any) -> Json:
    """The message of these params as 1.0 has it; a part may say `type` or `kind`.

    Raises:
        InvalidInput: with everything that is wrong with its role and its parts.
    """
    given = Reader(params).value("message")
    if not isinstance(given, dict):
        raise InvalidInput.of("message", "is required, as an object")
    said = Reader(given, "message.")
    if said.value("role") != "user":
        said.complain("role", "must be user")
    parts = said.value("parts")
    if not isinstance(parts, list) or not parts:
        said.complain("parts", "must be a list of at least one part")
        parts = []
    newer = [_read_part(part, f"parts[{place}]", said) for place, part in enumerate(cast("list[Any]", parts))]
    said.settle()
    return {**cast("Json", given), "role": "ROLE_USER", "parts": newer}


def _read_part(given: Any, where: str, said: Reader) -> Json:
    if not isinstance(given, dict):
        said.complain(where, "must be an object")
        return {}
    part = cast("Json", given)
    kept: Json = {"metadata": part["metadata"]} if part.get("metadata") is not None else {}
    match part.get("kind", part.get("type")):
        case "text" if isinstance(part.get("text"), str):
            return kept | {"text": part["text"]}
        case "text":
            said.complain(f"{where}.text", "must be text")
        case "data" if isinstance(part.get("data"), dict):
            return kept | {"data": part["data"]}
        case "data":
            said.complain(f"{where}.data", "must be an object")
        case "file":
            return kept | _read_file(part.get("file"), f"{where}.file", said)
        case _:
            said.complain(f"{where}.{'kind' if 'kind' in part else 'type'}", "must be text, data or file")
    return {}


def _read_file(given: Any, where: str, said: Reader) -> Json:
    file = cast("Json", given) if isinstance(given, dict) else {}
    payloads = [name for name in ("bytes", "uri") if file.get(name) is not None]
    if len(payloads) != 1 or not isinstance(file[payloads[0]], str):
        said.complain(where, "must be an object with exactly one of bytes and uri, as text")
        return {}
    newer: Json = {"url": file["uri"]} if payloads[0] == "uri" else {"raw": file["bytes"]}
    if "raw" in newer:
        read_base64(newer["raw"], f"{where}.bytes", said)
    for name, ours in (("name", "filename"), ("mimeType", "mediaType")):
        value = file.get(name)
        if value is not None and not isinstance(value, str):
            said.complain(f"{where}.{name}", "must be text")
        elif value:
            newer[ours] = value
    return newer
