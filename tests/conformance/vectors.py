"""Vectors of our own: what they hold, and how one of them runs over one binding. vectors/README.md has the format."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import httpx
import yaml

from tests.conformance.bindings import BINDINGS, Answer
from tests.conformance.matching import at, filled, match
from tests.conformance.reading import read_card
from tests.doors.a2a.signatures import verify
from tests.receiver import Receiver

FOLDER = Path(__file__).with_name("vectors")
A2A_DOMAIN = "a2a-protocol.org"


@dataclass(frozen=True)
class Fault:
    """How an error looks on each binding; `reason` where the protocol has a name for it."""

    jsonrpc: int
    http: int
    grpc: int
    reason: str | None

    def code(self, binding: str) -> int:
        """The code to be found in the answer."""
        return {"jsonrpc": self.jsonrpc, "http+json": self.http, "grpc": self.grpc}[binding]


FAULTS = {
    "TaskNotFound": Fault(-32001, 404, 5, "TASK_NOT_FOUND"),
    "TaskNotCancelable": Fault(-32002, 400, 9, "TASK_NOT_CANCELABLE"),
    "PushNotificationNotSupported": Fault(-32003, 400, 9, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    "UnsupportedOperation": Fault(-32004, 400, 9, "UNSUPPORTED_OPERATION"),
    "ContentTypeNotSupported": Fault(-32005, 400, 3, "CONTENT_TYPE_NOT_SUPPORTED"),
    "VersionNotSupported": Fault(-32009, 400, 9, "VERSION_NOT_SUPPORTED"),
    "InvalidParams": Fault(-32602, 400, 3, "INVALID_PARAMS"),
    # What concerns the connection is said by HTTP, whichever binding it carries.
    "Unauthenticated": Fault(401, 401, 16, None),
    "Forbidden": Fault(403, 403, 7, None),
}


def read_vectors() -> Iterator[dict[str, Any]]:
    """All of them, with the file's own defaults filled in."""
    for path in sorted(FOLDER.glob("*.yaml")):
        for vector in yaml.safe_load(path.read_text()):
            yield {"bindings": list(BINDINGS), **vector}


class Run:
    """One run of one vector. `callers` are clients by the names that steps call them."""

    def __init__(self, binding: str, callers: dict[str, httpx.Client]) -> None:
        self._binding = binding
        self._callers = callers
        self._kept: dict[str, Any] = {"fresh": uuid4().hex}
        self._open: dict[str, Iterator[Any]] = {}
        self._closing = {"": ExitStack()}
        self._webhook = Receiver()
        self._kept["webhook"] = self._webhook.url
        self._acts: dict[str, Callable[[dict[str, Any]], list[str]]] = {
            "close": self._close,
            "read": lambda step: self._judge_stream(step, list(self._open[step["read"]])),
            "http": self._http,
            "told": lambda step: self._told(step["told"]),
            "untold": self._untold,
        }

    def __enter__(self) -> Self:
        self._closing[""].enter_context(self._webhook)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stack in self._closing.values():
            stack.close()

    def step(self, step: dict[str, Any]) -> list[str]:
        """What is wrong with one step."""
        step = filled(step, self._kept)
        for name, act in self._acts.items():
            if name in step:
                return act(step)
        method, params = self._request(step)
        http = self._callers[step.get("as", "owner")]
        asked = BINDINGS[self._binding].ask(http, method, params, step.get("headers", {}))
        with ExitStack() as stack:
            answer = stack.enter_context(asked)
            if "open" in step:
                self._open[step["open"]] = answer.events
                self._kept[step["open"]] = []
                self._closing[step["open"]] = stack.pop_all()
                first = next(answer.events, None)
                return match(step.get("first", {}), first, "first event")
            return self._judge(step, answer) + _repeated(http, answer)

    def _request(self, step: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        if "call" in step:
            return step["call"], step.get("params", {})
        message = {"role": "ROLE_USER", "messageId": uuid4().hex, "parts": [{"text": step["say"]}]}
        method = "SendStreamingMessage" if "stream" in step or "open" in step else "SendMessage"
        return method, {"message": message | step.get("message", {}), **step.get("with", {})}

    def _judge(self, step: dict[str, Any], answer: Answer) -> list[str]:
        wrong = match(step.get("answered", {}), answer.headers, "headers")
        if "error" in step:
            return wrong + self._judge_error(step["error"], answer)
        if answer.error is not None:
            return [*wrong, f"an error: {answer.error}"]
        if "stream" in step:
            return wrong + self._judge_stream(step, list(answer.events))
        self._keep(step, answer.result)
        if "signed" in step:
            wrong += match(step["signed"], verify(answer.result), "signature")
        return wrong + match(step.get("result", {}), answer.result, "result")

    def _judge_error(self, name: str, answer: Answer) -> list[str]:
        if answer.error is None:
            return [f"no error but {str(answer.result)[:300]}"]
        fault = FAULTS[name]
        wrong = match(fault.code(self._binding), answer.error["code"], "error.code")
        if fault.reason is not None:
            wrong += match({"reason": fault.reason, "domain": A2A_DOMAIN}, answer.error, "error")
        return wrong

    def _judge_stream(self, step: dict[str, Any], events: list[Any]) -> list[str]:
        wanted = step["stream"]
        wrong: list[str] = []
        for name, place in (("first", 0), ("last", -1)):
            if name in wanted:
                wrong += match(wanted[name], events[place] if events else None, f"{name} event")
        for event in events:
            wrong += match(wanted.get("each", {}), event, "event")
        rest = iter(events)
        for shape in wanted.get("order", []):
            if not any(not match(shape, event, "") for event in rest):
                wrong.append(f"no event, or not in this order: {shape}")
        wrong += match(wanted.get("all", {}), events, "events")
        if "same_as" in wanted and events != wanted["same_as"]:
            wrong.append(f"not the same events: {events} and {wanted['same_as']}")
        self._kept[step.get("read", "")] = events
        self._keep(step, events[0] if events else None)
        return wrong

    def _http(self, step: dict[str, Any]) -> list[str]:
        """A request by hand, for what lies below the methods: addresses, headers, bodies that are no calls."""
        asked = step["http"]
        content = {name: asked[name] for name in ("json", "content", "params") if name in asked}
        http = self._callers[step.get("as", "owner")]
        response = http.request(asked["verb"], asked["path"], headers=step.get("headers"), **content)
        wrong = match(step.get("status", 200), response.status_code, "status")
        wrong += match(step.get("answered", {}), dict(response.headers), "headers")
        typed = "json" in response.headers.get("content-type", "")
        body: Any = response.json() if typed and response.content else response.text
        if step.get("reads") == "AgentCard":
            read_card(body)
        if "signed" in step:
            wrong += match(step["signed"], verify(body), "signature")
        self._keep(step, {"headers": dict(response.headers), "body": body})
        return wrong + match(step.get("body", {}), body, "body")

    def _close(self, step: dict[str, Any]) -> list[str]:
        self._closing.pop(step["close"]).close()
        return []

    def _untold(self, _: dict[str, Any]) -> list[str]:
        return [] if self._webhook.received.empty() else [f"the webhook was told {self._webhook.next()}"]

    def _told(self, wanted: dict[str, Any]) -> list[str]:
        """What the webhook is told, up to the notification that is wanted."""
        while True:
            try:
                notification = self._webhook.next()
            except Empty:
                return [f"the webhook was not told {wanted['body']}"]
            if not match(wanted["body"], notification.json, ""):
                return match(wanted.get("headers", {}), notification.headers, "headers")

    def _keep(self, step: dict[str, Any], value: Any) -> None:
        for name, path in step.get("keep", {}).items():
            found = list(at(value, path))
            assert found, f"nothing at {path} in {str(value)[:300]}"
            self._kept[name] = found[0]


def _repeated(http: httpx.Client, answer: Answer) -> list[str]:
    """No answer holds the credentials of the one who asked."""
    token = http.headers.get("authorization", "").removeprefix("Bearer ")
    return ["the answer repeats the credentials"] if token and token in f"{answer.result} {answer.error}" else []
