"""The tool call in a message: found once, where the message comes in."""

from typing import Any

from dragoman.doors.a2a.reading import Modes, read_send
from dragoman.services.tasks.models import ToolCall, find_tool_call

MODES = Modes(frozenset({"*/*"}), frozenset({"*/*"}))


def message(*parts: dict[str, Any]) -> dict[str, Any]:
    """A message as the core keeps it."""
    return {"id": "m", "role": "user", "parts": list(parts)}


def data(value: Any) -> dict[str, Any]:
    """A data part."""
    return {"kind": "data", "data": value}


def test_the_first_part_that_names_a_tool_is_the_call() -> None:
    said = message(
        {"kind": "text", "text": "please"},
        data([1]),
        data({"tool": "memory_add", "arguments": {"content": "tea"}, "idempotency_key": "k"}),
        data({"tool": "memory_list"}),
    )

    assert find_tool_call(said) == ToolCall("memory_add", {"content": "tea"}, "k")


def test_a_message_without_a_tool_has_no_call() -> None:
    assert find_tool_call(message({"kind": "text", "text": "tool"}, data({"arguments": {}}))) is None


def test_a_name_that_is_not_text_is_a_call_without_a_name() -> None:
    assert find_tool_call(message(data({"tool": 5}))) == ToolCall(None, {})


def test_a_message_that_comes_in_carries_its_call_and_the_key_beside_it() -> None:
    sent = {
        "role": "ROLE_USER",
        "messageId": "m",
        "parts": [{"data": {"tool": "memory_add", "arguments": {}, "idempotency_key": "k-1"}}],
    }

    incoming = read_send({"message": sent}, MODES, key=None, wait_s=0).incoming

    assert incoming.tool_call == ToolCall("memory_add", {}, "k-1")
    assert incoming.idempotency_key == "k-1"
