"""A2A 0.3: what it sends, as 1.0 has it, and what 1.0 answers, as it shows it."""

from typing import Any, Final, cast

from dragoman.doors.a2a.card import RPC_PATH
from dragoman.doors.a2a.negotiation import OLDER
from dragoman.doors.a2a.reading import Reader
from dragoman.doors.a2a.tagged import read_message, tag_message, tag_part, tag_status
from dragoman.services.tasks.models import Json

_TAG: Final = "kind"
_CARD: Final = (
    "name", "description", "version", "documentationUrl", "defaultInputModes", "defaultOutputModes", "skills",
)  # fmt: skip
_CAPABILITIES: Final = ("streaming", "pushNotifications", "extensions")
_SCHEMES: Final[dict[str, dict[str, str]]] = {
    "httpAuthSecurityScheme": {"type": "http"},
    "apiKeySecurityScheme": {"type": "apiKey"},
}


def read_send_03(params: Any) -> Json:
    """The params of a message as 1.0 has them.

    Raises:
        InvalidInput: with the fields that are wrong.
    """
    message = read_message(params)
    reader = Reader(params)
    said = Reader(message, "message.")
    said.text("messageId", required=True)
    wanted = reader.object("configuration")
    configuration = Reader(wanted, "configuration.")
    at_once = configuration.value("blocking") is not None and not configuration.flag("blocking")
    reader.complaints += said.complaints + configuration.complaints
    reader.settle()
    given = cast("Json", params)
    return {**given, "message": message, "configuration": {**wanted, "returnImmediately": at_once}}


def task_03(newer: Json) -> Json:
    """A task."""
    shown: Json = {**newer, "kind": "task", "status": _status(newer["status"])}
    if "artifacts" in newer:
        shown["artifacts"] = [_artifact(artifact) for artifact in newer["artifacts"]]
    if "history" in newer:
        shown["history"] = [message_03(message) for message in newer["history"]]
    return shown


def event_03(newer: Json, *, final: bool) -> Json:
    """One event of a stream; the last status says that it is."""
    if "task" in newer:
        return task_03(newer["task"])
    if "message" in newer:
        return message_03(newer["message"])
    if (update := newer.get("artifactUpdate")) is not None:
        return {**update, "kind": "artifact-update", "artifact": _artifact(update["artifact"])}
    update = newer["statusUpdate"]
    return {**update, "kind": "status-update", "status": _status(update["status"]), "final": final}


def card_03(newer: Json, base_url: str) -> Json:
    """A card: one address, and schemes as OpenAPI has them."""
    schemes: Json = {}
    for name, scheme in newer["securitySchemes"].items():
        [(kind, fields)] = scheme.items()
        schemes[name] = _SCHEMES[kind] | {"in" if key == "location" else key: value for key, value in fields.items()}
    return {
        **{name: newer[name] for name in _CARD},
        "protocolVersion": f"{OLDER}.0",
        "url": f"{base_url}{RPC_PATH}",
        "preferredTransport": "JSONRPC",
        "capabilities": {name: newer["capabilities"][name] for name in _CAPABILITIES},
        "securitySchemes": schemes,
        "security": [{name: []} for name in schemes],
        "supportsAuthenticatedExtendedCard": True,
    }


def _status(newer: Json) -> Json:
    shown = tag_status(newer, _TAG)
    return shown | {"message": shown["message"] | {"kind": "message"}} if "message" in shown else shown


def message_03(newer: Json) -> Json:
    """A message."""
    return tag_message(newer, _TAG) | {"kind": "message"}


def _artifact(newer: Json) -> Json:
    return newer | {"parts": [tag_part(part, _TAG) for part in newer["parts"]]}
