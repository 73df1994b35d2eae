"""JSON that no program of ours could keep, hash or write again is refused as input, alike on every door."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import uuid4

import grpc
import httpx
import pytest
from a2a.types import a2a_pb2 as pb

from dragoman.doors.mcp.bridge import Bridge
from tests.doors.a2a.grpc_calling import GrpcCaller, address_of
from tests.doors.mcp.calling import read
from tests.harness import Server
from tests.patience import PATIENCE_S
from tests.services.signatures.remote_providers import WEBHOOK_KEY
from tests.services.signatures.test_remote import configuration
from tests.tenants import done

Answer = tuple[int, Any]
Door = Callable[[httpx.Client, bytes], httpx.Response]

NOT_JSON: dict[str, bytes] = {
    "lists, 300 deep": b"[" * 300 + b"]" * 300,
    "objects, 300 deep": b'{"a":' * 300 + b"1" + b"}" * 300,
    "lists, 5,000 deep": b"[" * 5_000 + b"]" * 5_000,
    "objects, 100,000 deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "lists that never end": b"[" * 100_000,
    "half of a surrogate pair": b'"\\ud800"',
    "the other half, as a name": b'{"\\udc00": 1}',
    "halves in the wrong order": b'"\\udc00\\ud800"',
    "half of a pair in UTF-8": b'"\xed\xa0\x80"',
    "invalid UTF-8": b'"\xff\xfe"',
    "a control character": b'"a\x00b"',
    "a number of 10,000 digits": b"1" * 10_000,
    "no number": b"NaN",
}
UNFIT: dict[str, bytes] = {
    "lists, 150 deep": b"[" * 150 + b"]" * 150,
    "an escaped control character": b'"a\\u0000b"',
    "the same in a name": b'{"a\\u0000b": 1}',
    "more than a double holds": b"1e999",
    "less than a double holds": b"-1E+999",
    "a whole number beyond 64 bits": b"18446744073709551616",
    "a whole number beyond 2**53": b"9007199254740993",
}
MCP = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
A2A = {"A2A-Version": "1.0"}
NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"


def arguments(value: bytes) -> bytes:
    return b'{"content": "tea", "metadata": {"x": ' + value + b"}}"


def called(value: bytes) -> bytes:
    return b'{"tool": "memory_add", "arguments": ' + arguments(value) + b"}"


def message(value: bytes) -> bytes:
    return b'{"message": {"role": "ROLE_USER", "messageId": "m", "parts": [{"data": ' + called(value) + b"}]}}"


def older(value: bytes) -> bytes:
    part = b'{"kind": "data", "type": "data", "data": ' + called(value) + b"}"
    return b'{"message": {"role": "user", "kind": "message", "messageId": "m", "parts": [' + part + b"]}}"


def rpc(method: str, params: bytes) -> bytes:
    return b'{"jsonrpc": "2.0", "id": 7, "method": "' + method.encode() + b'", "params": ' + params + b"}"


def at(path: str, body: Callable[[bytes], bytes], *, verb: str = "POST", **headers: str) -> Door:
    def send(client: httpx.Client, value: bytes) -> httpx.Response:
        sent = {"content-type": "application/json", "x-correlation-id": uuid4().hex}
        return client.request(verb, path, content=body(value), headers=sent | headers)

    return send


PUSH = f"/a2a/rest/tasks/{NOBODY}/pushNotificationConfigs"
PROBLEMS: dict[str, Door] = {
    "REST": at("/api/memories", arguments),
    "REST with a path": at(f"/api/users/{NOBODY}", lambda v: b'{"name": "x", "z": ' + v + b"}", verb="PATCH"),
    "an envelope": at("/api/tasks", lambda v: b'{"envelope_version": "1", "input": {"x": ' + v + b"}}"),
    "0.1": at("/tasks/send", older),
    "0.1 in a stream": at("/tasks/sendSubscribe", older),
    "0.1 with a path": at(f"/tasks/{NOBODY}/send", older),
    "0.1 in JSON-RPC": at("/tasks/send", lambda v: rpc("tasks/send", older(v))),
}
HTTP_JSON: dict[str, Door] = {
    "HTTP+JSON": at("/a2a/rest/message:send", message, **A2A),
    "HTTP+JSON in a stream": at("/a2a/rest/message:stream", message, **A2A),
    "push over HTTP+JSON": at(PUSH, lambda v: b'{"url": "https://x.example", "token": ' + v + b"}", **A2A),
}
JSON_RPC: dict[str, Door] = {
    "JSON-RPC": at("/a2a", lambda v: rpc("SendMessage", message(v)), **A2A),
    "JSON-RPC in a stream": at("/a2a", lambda v: rpc("SendStreamingMessage", message(v)), **A2A),
    "JSON-RPC 0.3": at("/a2a", lambda v: rpc("message/send", older(v))),
    "push over JSON-RPC": at(
        "/a2a", lambda v: rpc("CreateTaskPushNotificationConfig", b'{"taskId": "x", "y": ' + v + b"}"), **A2A
    ),
}
# What is wrong with the arguments alone is an answer of the tool.
TOOL = "a tool of MCP"
MCP_DOOR: dict[str, Door] = {
    TOOL: at("/mcp", lambda v: rpc("tools/call", b'{"name": "memory_add", "arguments": ' + arguments(v) + b"}"), **MCP),
    "meta of MCP": at(
        "/mcp",
        lambda v: rpc("tools/call", b'{"name": "memory_list", "arguments": {}, "_meta": {"x": ' + v + b"}}"),
        **MCP,
    ),
    "an introduction to MCP": at(
        "/mcp",
        lambda v: rpc("initialize", b'{"protocolVersion": "2025-06-18", "capabilities": {"x": ' + v + b"}}"),
        **MCP,
    ),
}
DOORS = PROBLEMS | HTTP_JSON | JSON_RPC | MCP_DOOR


def said(door: str, answer: httpx.Response) -> Answer:
    """The status and the code, and the id of a JSON-RPC request."""
    if door == TOOL and answer.status_code == 200:
        result = read(answer)["result"]
        return 200, (result["isError"], result["structuredContent"]["error"]["code"])
    body = answer.json()
    if door in PROBLEMS:
        return answer.status_code, body["code"]
    if door in HTTP_JSON:
        return answer.status_code, body["error"]["status"]
    return answer.status_code, (body["error"]["code"], body["id"])


def expected(door: str, *, is_json: bool) -> Answer:
    if door in PROBLEMS:
        return 400, "INVALID_PARAMS"
    if door in HTTP_JSON:
        return 400, "INVALID_ARGUMENT"
    if door == TOOL and is_json:
        return 200, (True, "INVALID_PARAMS")
    return 200 if door in JSON_RPC else 400, (-32602, 7) if is_json else (-32700, None)


def assert_no_failure(server: Server) -> None:
    assert [line["message"] for line in server.log_lines() if "stack_trace" in line] == []


@pytest.mark.req("GW-204", "GW-406")
@pytest.mark.parametrize("door", DOORS)
def test_what_could_not_be_kept_is_invalid_and_leaves_an_event_without_values(server: Server, door: str) -> None:
    """Review finding 24: depth was a 500 over A2A; F11: a 400 left nothing in the log but its access line."""
    with server.client(server.token()) as client:
        told = {name: DOORS[door](client, value) for name, value in (NOT_JSON | UNFIT).items()}

    assert {name: said(door, answer) for name, answer in told.items()} == {
        name: expected(door, is_json=name in UNFIT) for name in told
    }
    for answer in told.values():
        [event] = server.security_events(of=answer.headers["x-request-id"])
        assert (event["event"], event["tenant"], event["subject"]) == ("input_refused", "demo", "admin")
        assert event["code"] in ("INVALID_PARAMS", "PARSE_ERROR")
        assert event["correlation_id"] == answer.headers["x-correlation-id"]
    assert_no_failure(server)


@pytest.mark.req("GW-204")
def test_the_event_of_a_refused_field_names_it_and_not_what_was_in_it(server: Server) -> None:
    with server.client(server.token()) as client:
        answer = client.post("/api/memories", json={"content": 5, "layer": "very-private-value", "colour": "red"})

    [event] = server.security_events(of=answer.headers["x-request-id"])
    assert (event["code"], event["operation"], event["door"]) == ("INVALID_PARAMS", "memory.add", "rest")
    assert sorted(event["fields"]) == ["colour", "content", "layer"]
    assert "very-private-value" not in json.dumps(event)


@pytest.mark.parametrize(("path", "body"), [("/api/memories", arguments(b"1")), ("/tasks/send", older(b"1"))])
def test_a_byte_order_mark_is_not_json(server: Server, path: str, body: bytes) -> None:
    with server.client(server.token()) as client:
        answer = client.post(path, content=b"\xef\xbb\xbf" + body, headers={"content-type": "application/json"})

    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_PARAMS")


@pytest.mark.parametrize("door", ["REST", "0.1", "HTTP+JSON", "JSON-RPC", "JSON-RPC 0.3", TOOL])
def test_of_a_name_that_stands_twice_the_last_counts_and_depth_within_the_limit_is_kept(
    server: Server, door: str
) -> None:
    mark, deep = uuid4().hex, b"[" * 80 + b"]" * 80
    with server.client(server.token(user=mark)) as client:
        DOORS[door](client, b'{"n": 1, "n": 2, "deep": ' + deep + b"}").raise_for_status()
        [kept] = done(client.post("/api/memories/list", json={}))

    assert kept["metadata"]["x"] == {"n": 2, "deep": json.loads(deep)}


def test_deep_data_of_a_task_is_refused_by_the_binding_that_cannot_write_it(server: Server) -> None:
    """Protocol buffers end at a depth of a hundred messages, which is some thirty levels of free data."""
    data = json.loads(b"[" * 60 + b"]" * 60)
    sent = {"message": {"role": "ROLE_USER", "messageId": uuid4().hex, "parts": [{"data": data}]}}
    with server.client(server.token()) as client:
        task = client.post("/a2a/rest/message:send", json=sent, headers=A2A).json()["task"]
    with GrpcCaller(address_of(server), authorization=f"Bearer {server.token()}") as caller:
        code, _ = caller.refusal("GetTask", pb.GetTaskRequest(id=task["id"]))

    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert_no_failure(server)


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/api/users/%00"), ("GET", "/api/users?cursor=%00"), ("GET", "/api/users?status=%ED%A0%80"),
        ("GET", "/a2a/rest/tasks/a%00b"), ("GET", "/a2a/rest/tasks?contextId=a%00b"),
        ("POST", "/a2a/rest/tasks/a%00b:cancel"), ("POST", "/a2a/rest/tasks/a%00b/pushNotificationConfigs"),
        ("GET", "/tasks/a%00b/get"), ("POST", "/tasks/a%00b/send"),
        ("POST", "/mcp?x=%00"), ("GET", "/docs/%00"), ("POST", "/api/webhooks/docusign/%00"), ("GET", "/%00"),
    ],
)  # fmt: skip
def test_an_address_that_could_not_be_kept_is_invalid(server: Server, verb: str, path: str) -> None:
    with server.client(server.token()) as client:
        answer = client.request(verb, path, json={} if verb == "POST" else None)

    assert answer.status_code == 400
    assert_no_failure(server)


# gRPC has no JSON, but its free data is of the same kind.


def field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer, by its length."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


def nested(depth: int) -> bytes:
    value = b"\x08\x00"
    for _ in range(depth):
        value = field(6, field(1, value))
    return value


FREE_DATA = {
    "lists, 300 deep": nested(300),
    "lists, 5,000 deep": nested(5_000),
    "half of a surrogate pair": field(3, b"\xed\xa0\x80"),
    "invalid UTF-8": field(3, b"\xff\xfe"),
    "a control character": field(3, b"a\x00b"),
    "no number": b"\x11" + bytes([0, 0, 0, 0, 0, 0, 0xF8, 0x7F]),
    "infinity": b"\x11" + bytes([0, 0, 0, 0, 0, 0, 0xF0, 0x7F]),
}


@pytest.mark.req("GW-204")
@pytest.mark.parametrize("case", FREE_DATA)
def test_free_data_of_grpc_that_could_not_be_kept_is_invalid(server: Server, case: str) -> None:
    number = pb.Part.DESCRIPTOR.fields_by_name["data"].number
    parts = pb.Message.DESCRIPTOR.fields_by_name["parts"].number
    head = pb.Message(role=pb.ROLE_USER, message_id="m").SerializeToString()
    whole = pb.SendMessageRequest.DESCRIPTOR.fields_by_name["message"].number
    request = field(whole, head + field(parts, field(number, FREE_DATA[case])))

    with grpc.insecure_channel(address_of(server)) as channel:
        send = channel.unary_unary("/lf.a2a.v1.A2AService/SendMessage")
        with pytest.raises(grpc.RpcError) as caught:
            send(request, timeout=PATIENCE_S, metadata=(("authorization", f"Bearer {server.token()}"),))

    error: Any = caught.value
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert_no_failure(server)


def test_the_pipes_of_mcp_answer_what_is_not_json_and_go_on(server: Server) -> None:
    lines = [mcp_line(value) for value in (NOT_JSON | UNFIT).values()]
    out = io.BytesIO()

    async def typed() -> AsyncIterator[bytes]:
        for line in [*lines, rpc("tools/list", b"{}")]:
            yield line + b"\n"

    asyncio.run(Bridge(server.url, server.token, out=out).run(typed()))

    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    results = [answer["result"] for answer in answers if "result" in answer]
    assert [answer["error"]["code"] for answer in answers if "error" in answer] == [-32700] * len(NOT_JSON)
    assert [result["isError"] for result in results if "isError" in result] == [True] * len(UNFIT)
    assert ["tools" in result for result in results if "isError" not in result] == [True]


def mcp_line(value: bytes) -> bytes:
    return rpc("tools/call", b'{"name": "memory_add", "arguments": ' + arguments(value) + b"}")


@pytest.mark.req("GW-206")
def test_an_authentic_webhook_that_could_not_be_kept_is_invalid(server: Server) -> None:
    with server.client(server.token()) as boss:
        kept = done(boss.post("/api/signing-providers", json=configuration("documenso", "https://x.example")))
    headers = {"content-type": "application/json", "X-Documenso-Secret": WEBHOOK_KEY}

    with server.client() as provider:
        answers = {
            name: provider.post(
                kept["webhook_path"],
                content=b'{"event": "DOCUMENT_COMPLETED", "payload": {"envelopeId": "a", "x": ' + value + b"}}",
                headers=headers,
            )
            for name, value in (NOT_JSON | UNFIT).items()
        }

    assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(answers, 400)
    assert_no_failure(server)
