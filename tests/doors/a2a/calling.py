"""A2A as a client speaks it, with a close look at every answer."""

import json
import re
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch
from uuid import uuid4

import httpx

from dragoman.infra.config import Settings
from tests.conformance.reading import SECRETS, read_result
from tests.harness import InProcess, Server

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "conformance")
# Webhooks of tests listen on this machine; every other address of it stays out of bounds.
CONFORMANCE = {"DRAGOMAN_AGENT": "agent:agent", "PYTHONPATH": EXAMPLE, "DRAGOMAN_LIMITS__A2A_TENANT_PER_MIN": "1000000",
               "DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1", "CONFORMANCE_STAY_S": "0.8"}  # fmt: skip
# For a process; `brief` is the same for a server in this one.
BRIEF = str(Path(__file__).with_name("brief"))
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"


@contextmanager
def brief(environment: dict[str, str]) -> Generator[Server]:
    """A server that gives whoever waits for a task the task as it is after a moment, and has a minute to answer."""
    with ExitStack() as stack:
        with patch.object(Settings, "longest_wait_s", 0.3):
            running = stack.enter_context(InProcess(environment))
        yield running


def unnumbered(answer: Any) -> str:
    """Return an answer as text without the number of its request, which differs from answer to answer."""
    return re.sub(r"(requestId['\"]: ['\"])[0-9a-f-]{36}", r"\1<request>", str(answer))


def text(said: str, **fields: Any) -> dict[str, Any]:
    """The params of a message in words."""
    return params({"text": said}, **fields)


def busy(gate: Path, **fields: Any) -> dict[str, Any]:
    """The params of a message whose task goes on until the file is there."""
    return text(busy_words(gate), **fields)


def busy_words(gate: Path) -> str:
    """What such a message says."""
    return f"tck-long-running seconds=0.1 until={gate}"


def tool(name: str, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    """The params of an explicit tool call."""
    return params({"data": {"tool": name, "arguments": {} if arguments is None else arguments}}, **fields)


def params(*parts: Any, configuration: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """The params of a message."""
    message = {"role": "ROLE_USER", "messageId": uuid4().hex, "parts": list(parts), **fields}
    return {"message": message} | ({"configuration": configuration} if configuration else {})


class A2A:
    """One caller, over JSON-RPC. The fixture of all these tests closes it."""

    opened: ClassVar[list[httpx.Client]] = []

    def __init__(self, server: Server, *, keys_of: Server | None = None, **who: Any) -> None:
        self.http = server.client((keys_of or server).token(**who))
        self.opened.append(self.http)

    def post(self, body: Any, **headers: str) -> httpx.Response:
        """Any body at all."""
        return self.http.post("/a2a", json=body, headers={"A2A-Version": "1.0", **headers})

    def answer(self, method: str, params: Any, **headers: str) -> dict[str, Any]:
        """The whole answer, once it is found to be JSON-RPC."""
        response = self.post({"jsonrpc": "2.0", "id": "r-1", "method": method, "params": params}, **headers)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "application/json"
        body: dict[str, Any] = response.json()
        assert (body["jsonrpc"], body["id"]) == ("2.0", "r-1")
        return body

    def call(self, method: str, params: Any, **headers: str) -> dict[str, Any]:
        """The result of a call that succeeds."""
        body = self.answer(method, params, **headers)
        assert set(body) == {"jsonrpc", "id", "result"}, body
        return read_result(method, body["result"])

    def error(self, method: str, params: Any, **headers: str) -> dict[str, Any]:
        """The error of a call that fails, once it gives nothing away."""
        body = self.answer(method, params, **headers)
        assert set(body) == {"jsonrpc", "id", "error"}, body
        assert not any(secret in json.dumps(body) for secret in SECRETS)
        info = body["error"]["data"][0]
        assert info["@type"] == ERROR_INFO
        assert info["reason"].isupper()
        assert all(isinstance(value, str) for value in info.get("metadata", {}).values())
        return body["error"]

    def send(self, params: dict[str, Any], **headers: str) -> dict[str, Any]:
        """The task that a message became."""
        return self.call("SendMessage", params, **headers)["task"]

    def get(self, task_id: str, **fields: Any) -> dict[str, Any]:
        """A task."""
        return self.call("GetTask", {"id": task_id, **fields})

    @contextmanager
    def stream(self, method: str, params: Any, **headers: str) -> Generator[Iterator[tuple[int, dict[str, Any]]]]:
        """Events with their numbers, each checked."""
        body = {"jsonrpc": "2.0", "id": "s-1", "method": method, "params": params}
        with self.http.stream("POST", "/a2a", json=body, headers=headers) as response:
            assert response.status_code == 200
            assert response.headers["content-type"] == "text/event-stream", response.read()
            yield _rpc_events(response)

    def events(self, method: str, params: Any, **headers: str) -> list[tuple[int, dict[str, Any]]]:
        """All events of a stream that ends."""
        with self.stream(method, params, **headers) as events:
            return list(events)


def _rpc_events(response: httpx.Response) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, data in sse(response):
        assert (data["jsonrpc"], data["id"]) == ("2.0", "s-1")
        yield number, read_result("SubscribeToTask", data["result"])


def sse(response: httpx.Response) -> Iterator[tuple[int, dict[str, Any]]]:
    """Server-sent events; comments are passed over."""
    number = 0
    for line in response.iter_lines():
        if line.startswith("id: "):
            number = int(line[4:])
        elif line.startswith("data: "):
            yield number, json.loads(line[6:])


def error_of(task: dict[str, Any]) -> dict[str, Any]:
    """The error of a failed task."""
    return next(part["data"]["error"] for part in task["status"]["message"]["parts"] if "data" in part)


def state(task: dict[str, Any]) -> str:
    """Without its prefix."""
    return task["status"]["state"].removeprefix("TASK_STATE_")
