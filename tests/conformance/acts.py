"""Runs ACTS, the official declarative tests of A2A: steps, captures and matchers over the JSON-RPC binding."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import yaml

from tests.doors.a2a.calling import sse

METHODS = {
    "send_message": "SendMessage",
    "send_streaming_message": "SendStreamingMessage",
    "get_task": "GetTask",
    "list_tasks": "ListTasks",
    "cancel_task": "CancelTask",
    "subscribe_to_task": "SubscribeToTask",
    "get_extended_agent_card": "GetExtendedAgentCard",
    "set_push_notification_config": "CreateTaskPushNotificationConfig",
    "get_push_notification_config": "GetTaskPushNotificationConfig",
    "list_push_notification_configs": "ListTaskPushNotificationConfigs",
    "delete_push_notification_config": "DeleteTaskPushNotificationConfig",
}
CODES = {
    "TaskNotFoundError": -32001,
    "TaskNotCancelableError": -32002,
    "PushNotificationNotSupportedError": -32003,
    "UnsupportedOperationError": -32004,
    "ContentTypeNotSupportedError": -32005,
    "VersionNotSupportedError": -32009,
}
TYPES = {"string": str, "array": list, "object": dict, "number": (int, float), "boolean": bool, "null": type(None)}
ABSENT = object()


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """Every test, in the order of the suite."""
    for name in yaml.safe_load((folder / "suite.acts.yaml").read_text())["include"]:
        for suite in yaml.safe_load((folder / name).read_text())["suites"]:
            yield from suite["tests"]


class Acts:
    """One run of one test."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._captured: dict[str, Any] = {}

    def run(self, test: dict[str, Any]) -> list[str]:
        """What is wrong, step by step."""
        wrong: list[str] = []
        for step in test["steps"]:
            wrong += [f"{step['id']}: {complaint}" for complaint in self._step(step)]
        return wrong

    def _step(self, step: dict[str, Any]) -> list[str]:
        repeat = step.get("repeat")
        status, body, events = 0, None, list[Any]()
        for _ in range(repeat["max_attempts"] if repeat else 1):
            status, body, events = self._ask(step)
            if not repeat or _so(repeat["until"], body):
                break
            time.sleep(min(0.5, repeat["delay_ms"] / 1000))
        self._captured[f"{step['id']}.response"] = body
        for name, path in step.get("capture", {}).items():
            found = list(_at(body, path))
            self._captured[f"{step['id']}.{name}"] = found[0] if found else None
        return self._judge(step, status, body, events)

    def _judge(self, step: dict[str, Any], status: int, body: Any, events: list[Any]) -> list[str]:
        wrong: list[str] = []
        expect = self._filled(step.get("expect", {}))
        if "expect_error" in step or expect.get("status") == "error":
            wrong += _error(self._filled(step.get("expect_error", {})), body)
        elif expect:
            if isinstance(expect.get("status"), int | dict) and "state" not in str(expect["status"]):
                wrong += _match(expect["status"], status, "status")
            wrong += _match(expect.get("body", {k: v for k, v in expect.items() if k != "status"}), body, "body")
        for assertion in step.get("assertions", []):
            source = self._filled(assertion["source"])
            wanted = self._filled(assertion["any"])
            if all(_match(wanted["match"], one, "") for one in _at(source, wanted["path"])):
                wrong.append(f"nothing at {wanted['path']} is {wanted['match']}")
        if "expect_stream" in step:
            wrong += _stream(step["expect_stream"], events)
        return wrong

    def _ask(self, step: dict[str, Any]) -> tuple[int, Any, list[Any]]:
        raw = step.get("raw")
        if raw:
            return self._raw(self._filled(raw), streams="expect_stream" in step)
        params = self._filled(step.get("params") or {})
        if step["operation"] == "get_agent_card" and not params.get("extended"):
            response = self._http.get("/.well-known/agent-card.json")
            return response.status_code, response.json(), []
        method = "GetExtendedAgentCard" if step["operation"] == "get_agent_card" else METHODS[step["operation"]]
        if isinstance(params.get("message"), dict):
            beside = {name: params.pop(name) for name in ("taskId", "contextId") if name in params}
            params["message"] = {"messageId": uuid4().hex, **beside, **params["message"]}
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        request = {"method": "POST", "path": "/", "headers": {"A2A-Version": "1.0"}, "body": call}
        status, body, events = self._raw(request, streams="expect_stream" in step)
        unwrapped = body.get("result", body) if isinstance(body, dict) else body
        return status, unwrapped, [event.get("result", event) for event in events]

    def _raw(self, raw: dict[str, Any], *, streams: bool) -> tuple[int, Any, list[Any]]:
        content: dict[str, Any] = {"content": raw["body_raw"]} if "body_raw" in raw else {"json": raw.get("body")}
        url = "/a2a" + raw["path"].rstrip("/")
        if streams:
            with self._http.stream(raw["method"], url, headers=raw.get("headers"), **content) as response:
                return response.status_code, {}, [event for _, event in sse(response)]
        response = self._http.request(raw["method"], url, headers=raw.get("headers"), **content)
        return response.status_code, response.json(), []

    def _filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._filled(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._filled(one) for one in value]
        if isinstance(value, str) and (whole := re.fullmatch(r"\{\{(.+?)\}\}", value)):
            return self._captured.get(whole[1])
        return value


def _at(value: Any, path: str) -> Iterator[Any]:
    head, _, rest = path.partition(".")
    name, _, which = head.rstrip("]").partition("[")
    found = value.get(name) if isinstance(value, dict) else None
    if which and which != "*":
        found = found[int(which)] if isinstance(found, list) and int(which) < len(found) else None
    for one in (found or []) if which == "*" else ([] if found is None else [found]):
        if rest:
            yield from _at(one, rest)
        else:
            yield one


def _so(until: str, body: Any) -> bool:
    path, _, wanted = until.replace(" in ", " == ").partition(" == ")
    return any(one in re.findall(r"\w+", wanted) for one in _at(body, path))


def _error(expected: dict[str, Any], body: Any) -> list[str]:
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return [f"no error in {str(body)[:200]}"]
    wanted = expected.get("code", expected.get("error_type"))
    names = wanted["one_of"] if isinstance(wanted, dict) else [wanted] if wanted else []
    wrong = [] if not names or error["code"] in [CODES[name] for name in names] else [f"{error['code']} for {names}"]
    if "message" in expected:
        wrong += _match(expected["message"], error["message"], "message")
    return wrong


def _stream(expected: dict[str, Any], events: list[Any]) -> list[str]:
    flat = [_flat(event) for event in events]
    wrong = [] if len(events) >= expected.get("min_count", 0) else [f"only {len(events)} events"]
    if "final_event" in expected:
        wrong += _match(expected["final_event"], flat[-1] if flat else None, "last event")
    for wanted in expected.get("events", []):
        shape = {name: one for name, one in wanted.items() if name not in ("description", "match", "index")}
        among = [flat[wanted["index"]]] if "index" in wanted else flat
        choices = [_snaked(one) for one in shape["one_of"]] if "one_of" in shape else [shape]
        if all(_match(choice, event, "") for event in among for choice in choices):
            wrong.append(f"no event is {shape}")
    for event in events if "each_event" in expected else []:
        wrong += _match(expected["each_event"], event, "event")
    return wrong


def _flat(event: Any) -> Any:
    inner = event.get("result", event)
    merged = dict(inner)
    for name in ("task", "statusUpdate", "artifactUpdate"):
        merged |= inner.get(name, {})
    return merged


def _snaked(shape: dict[str, Any]) -> dict[str, Any]:
    return {
        {"status_update": "statusUpdate", "artifact_update": "artifactUpdate"}.get(k, k): v for k, v in shape.items()
    }


def _match(expected: Any, value: Any, where: str) -> list[str]:
    if not isinstance(expected, dict):
        return [] if expected == value else [f"{where} is {str(value)[:100]}, not {expected}"]
    wrong: list[str] = []
    for name, wanted in expected.items():
        if name in _RULES:
            if not _RULES[name](wanted, value, where):
                wrong.append(f"{where} is {str(value)[:100]}, not {name} {wanted}")
        else:
            inner = value.get(name, ABSENT) if isinstance(value, dict) else ABSENT
            wrong += _match(wanted, inner, f"{where}.{name}")
    return wrong


def _items(wanted: Any, value: Any, where: str) -> bool:
    if isinstance(wanted, dict):
        return all(not _match(wanted, one, where) for one in value)
    return all(any(not _match(one, found, where) for found in value) for one in wanted)


_RULES: dict[str, Any] = {
    "type": lambda wanted, value, _: isinstance(value, TYPES[wanted]),
    "exists": lambda wanted, value, _: (value is not ABSENT) is wanted,
    "absent": lambda wanted, value, _: (value is ABSENT) is wanted,
    "one_of": lambda wanted, value, _: value in wanted,
    "any_of": lambda wanted, value, where: any(not _match(one, value, where) for one in wanted),
    "all_of": lambda wanted, value, where: all(not _match(one, value, where) for one in wanted),
    "count": lambda wanted, value, _: isinstance(value, list) and len(value) == wanted,
    "count_gte": lambda wanted, value, _: isinstance(value, list) and len(value) >= wanted,
    "count_lte": lambda wanted, value, _: not isinstance(value, list) or len(value) <= wanted,
    "contains": lambda wanted, value, _: wanted in value,
    "starts_with": lambda wanted, value, _: str(value).startswith(wanted),
    "matches": lambda wanted, value, _: isinstance(value, str) and re.search(wanted, value) is not None,
    "items": _items,
}
