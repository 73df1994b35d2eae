"""Runs ACTS, the official declarative tests of A2A: steps, captures and matchers, over any binding."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import yaml

from tests.conformance.bindings import BINDINGS
from tests.conformance.matching import at, filled, match
from tests.conformance.vectors import FAULTS
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
# What the official tests call the bindings, and below which address of ours the paths of each are.
ROOTS = {"jsonrpc": "/a2a", "http+json": "/a2a/rest"}
TRANSPORTS = {"jsonrpc": "jsonrpc", "http+json": "rest", "grpc": "grpc"}


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """Every test, in the order of the suite."""
    for name in yaml.safe_load((folder / "suite.acts.yaml").read_text())["include"]:
        for suite in yaml.safe_load((folder / name).read_text())["suites"]:
            yield from suite["tests"]


class Acts:
    """One run of one test; `given` are the names that a test leaves to its runner."""

    def __init__(self, http: httpx.Client, binding: str, given: dict[str, Any] | None = None) -> None:
        self._http = http
        self._binding = binding
        self._captured: dict[str, Any] = dict(given or {})

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
            self._captured[f"{step['id']}.{name}"] = next(at(body, path), None)
        return self._judge(step, status, body, events)

    def _judge(self, step: dict[str, Any], status: int, body: Any, events: list[Any]) -> list[str]:
        wrong: list[str] = []
        expect = filled(step.get("expect", {}), self._captured)
        if "expect_error" in step or expect.get("status") == "error":
            wrong += self._error(filled(step.get("expect_error", {}), self._captured), body)
        elif expect:
            if isinstance(expect.get("status"), int | dict) and "state" not in str(expect["status"]):
                wrong += match(expect["status"], status, "status")
            wrong += match(expect.get("body", {k: v for k, v in expect.items() if k != "status"}), body, "body")
        for assertion in step.get("assertions", []):
            source = filled(assertion["source"], self._captured)
            wanted = filled(assertion["any"], self._captured)
            if all(match(wanted["match"], one, "") for one in at(source, wanted["path"])):
                wrong.append(f"nothing at {wanted['path']} is {wanted['match']}")
        if "expect_stream" in step:
            wrong += _stream(step["expect_stream"], events)
        return wrong

    def _error(self, expected: dict[str, Any], body: Any) -> list[str]:
        error = body.get("error") if isinstance(body, dict) else None
        if not isinstance(error, dict):
            return [f"no error in {str(body)[:200]}"]
        wanted = expected.get("code", expected.get("error_type"))
        names = wanted["one_of"] if isinstance(wanted, dict) else [wanted] if wanted else []
        codes = [FAULTS[name.removesuffix("Error")].code(self._binding) for name in names]
        wrong = [] if not names or error["code"] in codes else [f"{error['code']} for {names}"]
        if "message" in expected:
            wrong += match(expected["message"], error["message"], "message")
        return wrong

    def _ask(self, step: dict[str, Any]) -> tuple[int, Any, list[Any]]:
        if "raw" in step:
            return self._raw(filled(step["raw"], self._captured), streams="expect_stream" in step)
        params = filled(step.get("params") or {}, self._captured)
        extended = params.pop("extended", False)
        if step["operation"] == "get_agent_card" and not extended:
            response = self._http.get("/.well-known/agent-card.json")
            return response.status_code, response.json(), []
        method = "GetExtendedAgentCard" if step["operation"] == "get_agent_card" else METHODS[step["operation"]]
        if isinstance(params.get("message"), dict):
            beside = {name: params.pop(name) for name in ("taskId", "contextId") if name in params}
            params["message"] = {"messageId": uuid4().hex, **beside, **params["message"]}
        params |= params.pop("pushNotificationConfig", {})
        with BINDINGS[self._binding].ask(self._http, method, params, {}) as answer:
            events = list(answer.events)
        body = answer.result if answer.error is None else {"error": answer.error}
        return answer.status, body, events

    def _raw(self, raw: dict[str, Any], *, streams: bool) -> tuple[int, Any, list[Any]]:
        content: dict[str, Any] = {"content": raw["body_raw"]} if "body_raw" in raw else {"json": raw.get("body")}
        url = ROOTS[self._binding] + raw["path"].rstrip("/")
        if streams:
            with self._http.stream(raw["method"], url, headers=raw.get("headers"), **content) as response:
                return response.status_code, {}, [event for _, event in sse(response)]
        response = self._http.request(raw["method"], url, headers=raw.get("headers"), **content)
        return response.status_code, response.json(), []


def _so(until: str, body: Any) -> bool:
    path, _, wanted = until.replace(" in ", " == ").partition(" == ")
    return any(one in re.findall(r"\w+", wanted) for one in at(body, path))


def _stream(expected: dict[str, Any], events: list[Any]) -> list[str]:
    flat = [_flat(event) for event in events]
    wrong = [] if len(events) >= expected.get("min_count", 0) else [f"only {len(events)} events"]
    if "final_event" in expected:
        wrong += match(expected["final_event"], flat[-1] if flat else None, "last event")
    for wanted in expected.get("events", []):
        shape = {name: one for name, one in wanted.items() if name not in ("description", "match", "index")}
        among = [flat[wanted["index"]]] if "index" in wanted else flat
        choices = [_snaked(one) for one in shape["one_of"]] if "one_of" in shape else [shape]
        if all(match(choice, event, "") for event in among for choice in choices):
            wrong.append(f"no event is {shape}")
    for event in events if "each_event" in expected else []:
        wrong += match(expected["each_event"], event, "event")
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
