import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from datetime import date
from enum import EnumType
from typing import Any

import pytest

import dragoman
import dragoman_costs
from dragoman.doors.a2a.errors import BY_KIND, to_http_error, to_rpc_error, wire_of
from dragoman.doors.a2a.wire import STATES
from dragoman.errors import DragomanError, FieldError, InvalidInput, Kind
from dragoman.services.tasks.errors import TaskNotFound
from dragoman.services.tasks.lifecycle import TERMINAL, State
from tests.doors.a2a.calling import ERROR_INFO

GIVEN: dict[str, Any] = {
    "errors": [FieldError(field="name", message="is required")], "limit_bytes": 5, "retry_after_s": 3, "expected": 1,
    "current": 2, "after_s": 1.5, "limit_s": 1.5, "served": ("1.0",), "allowed": ["GET"], "rows": 5, "most_rows": 4,
    "missing": [{"field": "approvals"}], "RateMissing.missing": [("USD", date(2026, 11, 1))],
    "policies": [{"id": "p", "version": "1"}], "words": {"message": "no"},
}  # fmt: skip
SPEC = {
    "TASK_NOT_FOUND": (-32001, 404, "NOT_FOUND"),
    "TASK_NOT_CANCELABLE": (-32002, 400, "FAILED_PRECONDITION"),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": (-32003, 400, "FAILED_PRECONDITION"),
    "UNSUPPORTED_OPERATION": (-32004, 400, "FAILED_PRECONDITION"),
    "CONTENT_TYPE_NOT_SUPPORTED": (-32005, 400, "INVALID_ARGUMENT"),
    "VERSION_NOT_SUPPORTED": (-32009, 400, "FAILED_PRECONDITION"),
    "INVALID_PARAMS": (-32602, 400, "INVALID_ARGUMENT"),
    "INVALID_REQUEST": (-32600, 400, "INVALID_ARGUMENT"),
    "METHOD_NOT_FOUND": (-32601, 404, "UNIMPLEMENTED"),  # as gRPC itself says it
    "PARSE_ERROR": (-32700, 400, "INVALID_ARGUMENT"),
    "INTERNAL_ERROR": (-32603, 500, "INTERNAL"),
}


def _all() -> Iterator[type[DragomanError]]:
    for package in (dragoman, dragoman_costs):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    waiting = [DragomanError]
    while waiting:
        error = waiting.pop()
        waiting += error.__subclasses__()
        if error.__module__.startswith(("dragoman.", "dragoman_costs.")):
            yield error


def _made(error: type[DragomanError]) -> DragomanError:
    """One of each, whatever it takes."""
    wanted = inspect.signature(error.__init__).parameters.values()
    named = {
        one.name: _given(error, one) for one in wanted if one.kind in (one.KEYWORD_ONLY,) and one.default is one.empty
    }
    placed = [
        _given(error, one)
        for one in list(wanted)[1:]
        if one.kind is one.POSITIONAL_OR_KEYWORD and one.default is one.empty
    ]
    return error(*placed, **named)


def _given(error: type[DragomanError], parameter: inspect.Parameter) -> Any:
    if isinstance(kind := parameter.annotation, EnumType):
        return next(iter(kind))
    return GIVEN.get(f"{error.__name__}.{parameter.name}", GIVEN.get(parameter.name, "x"))


@pytest.mark.req("RAD-H2-1")
def test_every_error_has_a_form_on_the_wire() -> None:
    errors = [_made(error) for error in _all()]

    assert len(errors) > 20
    for error in errors:
        rpc, (status, http) = to_rpc_error(error), to_http_error(error)
        assert rpc["message"] == http["error"]["message"] == error.message
        assert 400 <= status == http["error"]["code"] <= 599
        assert -32768 <= rpc["code"] <= -32000
        info = rpc["data"][0]
        assert rpc["data"] == http["error"]["details"]
        assert info["@type"] == ERROR_INFO
        assert info["domain"] in ("a2a-protocol.org", "dragoman")
        assert error.code in (info["reason"], info.get("metadata", {}).get("code"))


@pytest.mark.req("RAD-H2-1")
def test_every_kind_has_a_form_on_the_wire() -> None:
    assert set(BY_KIND) == set(Kind)


def test_the_protocols_own_errors_are_as_its_table_has_them() -> None:
    found = {wire.reason: (wire.code, wire.http, wire.grpc) for wire in map(wire_of, map(_made, _all())) if wire.reason}

    assert found == SPEC


def test_an_invalid_input_names_its_fields() -> None:
    error = to_rpc_error(InvalidInput.of("message.parts", "must not be empty"))

    assert error["data"][1] == {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [{"field": "message.parts", "description": "must not be empty"}],
    }


def test_a_missing_task_is_told_by_name() -> None:
    assert to_rpc_error(TaskNotFound("t-1")) == {
        "code": -32001,
        "message": "task 't-1' not found",
        "data": [
            {
                "@type": ERROR_INFO,
                "reason": "TASK_NOT_FOUND",
                "domain": "a2a-protocol.org",
                "metadata": {"code": "NOT_FOUND"},
            }
        ],
    }


def test_every_state_has_a_form_on_the_wire() -> None:
    ended = {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_REJECTED", "TASK_STATE_CANCELED"}

    assert set(STATES) == set(State)
    assert {state for state in State if STATES[state] in ended} == TERMINAL
