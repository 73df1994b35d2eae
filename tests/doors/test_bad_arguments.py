"""The same wrong arguments are refused alike on every door: one code, and the same words for the same fields."""

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict, ParseDict

from tests.doors.a2a.grpc_calling import GrpcCaller, address_of
from tests.harness import Server
from tests.services.tasks.doors import a2a, mcp, seed

Json = dict[str, Any]
Call = Callable[[Server, str, Json], Json]
PATHS = {"memory_add": "/api/memories", "memory_search": "/api/memories/search", "task_submit": "/api/tasks"}
ENVELOPE: Json = {"envelope_version": "2", "actor": {"id": 5, "type": "human"}, "idempotency_key": ""}

WRONG: list[tuple[str, Json]] = [
    ("memory_search", {"query": "tea", "limit": "5"}),
    ("memory_search", {"query": "tea", "limit": 9999, "explain": "yes"}),
    ("memory_search", {"query": 5, "colour": "red", "ids": {"user_id": 5}}),
    ("memory_search", {}),
    ("memory_add", {"content": ["tea"], "expires_at": 5}),
    ("memory_add", {"content": "tea", "tags": "one", "layer": "nowhere"}),
    ("task_submit", {"envelope": ENVELOPE}),
    ("task_submit", ENVELOPE),
    ("task_submit", {}),
]


def by_rest(server: Server, tool: str, arguments: Json) -> Json:
    with server.client(server.token()) as client:
        answer = client.post(PATHS[tool], json=arguments)
    assert answer.status_code == 400
    return {"code": answer.json()["code"], "errors": answer.json()["errors"]}


def by_client(call: Callable[[httpx.Client, str, Json], Json]) -> Call:
    def ask(server: Server, tool: str, arguments: Json) -> Json:
        with server.client(server.token()) as client:
            return _shown(call(client, tool, arguments)["error"])

    return ask


def by_http_json(server: Server, tool: str, arguments: Json) -> Json:
    with server.client(server.token()) as client:
        answer = client.post("/a2a/rest/message:send", json=_message(tool, arguments), headers={"A2A-Version": "1.0"})
    return _of_task(answer.json()["task"])


def by_grpc(server: Server, tool: str, arguments: Json) -> Json:
    request = ParseDict(_message(tool, arguments), pb.SendMessageRequest())
    with GrpcCaller(address_of(server), authorization=f"Bearer {server.token()}") as caller:
        return _of_task(MessageToDict(caller.call("SendMessage", request))["task"])


def by_cli(server: Server, tool: str, arguments: Json) -> Json:
    noun, _, verb = tool.partition("_")
    words = [
        word
        for name, value in arguments.items()
        for word in (f"--{name}", value if isinstance(value, str) else json.dumps(value))
    ]
    ended = server.cli(noun, verb, *words, "--json", environment={"DRAGOMAN_TOKEN": server.token()})
    assert ended.returncode == 1, ended.stderr
    return _shown(json.loads(ended.stdout)["error"])


def _message(tool: str, arguments: Json) -> Json:
    call = {"tool": tool, "arguments": arguments}
    return {"message": {"role": "ROLE_USER", "messageId": uuid4().hex, "parts": [{"data": call}]}}


def _of_task(task: Json) -> Json:
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    [error] = [part["data"]["error"] for part in task["status"]["message"]["parts"] if "data" in part]
    return _shown(error)


def _shown(error: Json) -> Json:
    return {"code": error["code"], "errors": error.get("errors") or error["details"]["errors"]}


OTHERS: dict[str, Call] = {
    "a2a": by_client(a2a),
    "http+json": by_http_json,
    "grpc": by_grpc,
    "plain paths": by_client(seed),
    "mcp": by_client(mcp),
}


@pytest.mark.parametrize(("tool", "arguments"), WRONG)
def test_wrong_arguments_are_refused_alike_on_every_door(server: Server, tool: str, arguments: Json) -> None:
    expected = by_rest(server, tool, arguments)

    assert expected["code"] == "INVALID_PARAMS"
    assert all(one["field"] and one["message"] for one in expected["errors"])
    assert {door: call(server, tool, arguments) for door, call in OTHERS.items()} == dict.fromkeys(OTHERS, expected)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("memory_search", {"query": "tea", "limit": 9999, "ids": {"user_id": 5}}),
        ("task_submit", {"envelope": ENVELOPE}),
    ],
)
def test_the_shell_shows_the_same_refusal(server: Server, tool: str, arguments: Json) -> None:
    assert by_cli(server, tool, arguments) == by_rest(server, tool, arguments)


def test_a_malformed_envelope_is_recorded_whichever_door_brought_it(server: Server) -> None:
    with server.client(server.token()) as client:

        def recorded() -> int:
            listed = client.get("/api/audit", params={"operation": "task.submit", "limit": 200}).json()["data"]
            return len([one for one in listed if (one["outcome"], one["code"]) == ("failed", "INVALID_PARAMS")])

        before = recorded()
        by_rest(server, "task_submit", {"envelope": ENVELOPE})
        by_client(a2a)(server, "task_submit", {"envelope": ENVELOPE})
        by_client(mcp)(server, "task_submit", {"envelope": ENVELOPE})

        assert recorded() == before + 3
