"""A2A 1.0 as the types of the official SDK have it: what must be there, what may be, and of which kind."""

from typing import Any

from a2a.types import a2a_pb2
from google.api import field_behavior_pb2
from google.protobuf.json_format import ParseDict, ParseError


def check_by_types(name: str, value: Any) -> None:
    """That a value is the ProtoJSON of this message: no unknown field, right kinds, and all that is required."""
    kind = getattr(a2a_pb2, name)
    try:
        ParseDict(value, kind(), ignore_unknown_fields=False)
    except ParseError as error:
        raise AssertionError(f"{name}: {error}") from None
    assert list(_missing(kind.DESCRIPTOR, value, name)) == []


def _missing(kind: Any, value: Any, where: str) -> list[str]:
    """Required fields that are not there, at any depth."""
    lacking: list[str] = []
    for field in kind.fields:
        inner = value.get(field.json_name)
        behaviour = field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
        if inner is None and field_behavior_pb2.REQUIRED in behaviour:
            lacking.append(f"{where}.{field.json_name}")
        elif inner is not None and field.message_type is not None and field.message_type.file == kind.file:
            map_entry = field.message_type.GetOptions().map_entry
            below = field.message_type.fields_by_name["value"].message_type if map_entry else field.message_type
            if below is not None and below.file == kind.file:
                parts = inner.values() if map_entry else inner if isinstance(inner, list) else [inner]
                for part in parts:
                    lacking += _missing(below, part, f"{where}.{field.json_name}")
    return lacking
