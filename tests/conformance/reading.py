"""What a server answers, read without mercy: by the types of the official SDK, and by the official schema."""

import json
import re
from typing import Any

from a2a.types import a2a_pb2
from google.api import field_behavior_pb2
from google.protobuf import empty_pb2
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message

from tests.doors.a2a.schema import check

# What no answer gives away: how the server is made.
SECRETS = ("Traceback", "asyncpg", "pydantic", "postgres", ".py", "SELECT", "INSERT", "site-packages", "RuntimeError")
_RESULTS: dict[str, type[Message]] = {
    "SendMessage": a2a_pb2.SendMessageResponse,
    "SendStreamingMessage": a2a_pb2.StreamResponse,
    "SubscribeToTask": a2a_pb2.StreamResponse,
    "GetTask": a2a_pb2.Task,
    "CancelTask": a2a_pb2.Task,
    "ListTasks": a2a_pb2.ListTasksResponse,
    "GetExtendedAgentCard": a2a_pb2.AgentCard,
    "CreateTaskPushNotificationConfig": a2a_pb2.TaskPushNotificationConfig,
    "GetTaskPushNotificationConfig": a2a_pb2.TaskPushNotificationConfig,
    "ListTaskPushNotificationConfigs": a2a_pb2.ListTaskPushNotificationConfigsResponse,
    "DeleteTaskPushNotificationConfig": empty_pb2.Empty,
}
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")


def read_result(method: str, value: Any) -> Any:
    """The result of a method, once it is found to be ProtoJSON as the official types write it."""
    return read_as(_RESULTS[method], value)


def read_message(message: Message) -> dict[str, Any]:
    """A message of gRPC in ProtoJSON, as the JSON bindings write it: with fields that are required, though empty."""
    shown = MessageToDict(message)
    _complete(shown, message.DESCRIPTOR)
    return shown


def read_card(value: Any) -> Any:
    """An agent card."""
    return read_as(a2a_pb2.AgentCard, value)


def read_as(kind: type[Message], value: Any) -> Any:
    """A value of this type: no unknown field, and every name, enum and number as the official writer has it."""
    parsed = ParseDict(value, kind(), ignore_unknown_fields=False)
    _same(MessageToDict(parsed), value, kind.DESCRIPTOR.name)
    if kind is not empty_pb2.Empty:
        check(kind.DESCRIPTOR.name, value)
    return value


def read_error(error: dict[str, Any], *, details: str) -> dict[str, Any]:
    """An error with its code, message and details under one set of names, once it gives nothing away."""
    assert isinstance(error["code"], int)
    assert isinstance(error["message"], str)
    assert error["message"]
    assert not any(secret in json.dumps(error) for secret in SECRETS), error
    told = error.get(details, [])
    assert all(isinstance(one.get("@type"), str) for one in told), error
    info: dict[str, Any] = next((one for one in told if one["@type"].endswith("/google.rpc.ErrorInfo")), {})
    return {**error, "details": told, "reason": info.get("reason"), "domain": info.get("domain")}


def _complete(shown: dict[str, Any], kind: Any) -> None:
    for known in kind.fields:
        required = field_behavior_pb2.REQUIRED in known.GetOptions().Extensions[field_behavior_pb2.field_behavior]
        value = shown.get(known.json_name)
        if value is None and not known.has_presence and (required or known.type == known.TYPE_BOOL):
            shown[known.json_name] = known.default_value
        elif known.message_type is not None and known.message_type.file == kind.file:
            for inner in value if isinstance(value, list) else [value or {}]:
                if inner and not known.message_type.GetOptions().map_entry:
                    _complete(inner, known.message_type)


def _same(written: Any, value: Any, where: str) -> None:
    """Everything that the official writer writes stands in the value, under the same name."""
    if isinstance(written, dict):
        for name, inner in written.items():
            assert name in value, f"{where} has no {name}"
            _same(inner, value[name], f"{where}.{name}")
    elif isinstance(written, list):
        assert len(written) == len(value), where
        for place, inner in enumerate(written):
            _same(inner, value[place], f"{where}[{place}]")
    elif where.endswith(".timestamp"):
        assert _TIMESTAMP.fullmatch(value), f"{where} is {value}"
    elif isinstance(written, float):
        # Free-form numbers are doubles in the official types, and so is what a reader gets of them.
        assert written == float(value), f"{where} is {value}, not {written}"
    else:
        assert written == value, f"{where} is {value}, not {written}"
