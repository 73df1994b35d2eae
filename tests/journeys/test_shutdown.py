"""SIGTERM: open streams end in good order, on every door, and the server is gone as soon as they have."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import grpc
import httpx
import pytest

from tests.doors.a2a.calling import CONFORMANCE, text
from tests.doors.a2a.grpc_calling import GrpcCaller, address_of, said
from tests.doors.mcp.calling import Ear, Mcp, Session
from tests.harness import Server, wait_for

LONG = "tck-long-running seconds=120"
# Far longer than the test waits: a server that used it up would fail it.
PATIENT = CONFORMANCE | {"DRAGOMAN_DRAIN_S": "300", "DRAGOMAN_TASKS__TIMEOUT_S": "600"}
SEED = {"message": {"role": "user", "parts": [{"type": "text", "text": LONG}]}}
OLDER_MESSAGE = {"role": "user", "messageId": "m-1", "kind": "message", "parts": [{"kind": "text", "text": LONG}]}
STREAMS: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("/a2a", {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": text(LONG)}, {}),
    ("/a2a", {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": OLDER_MESSAGE}},
     {"A2A-Version": "0.3"}),
    ("/a2a/rest/message:stream", text(LONG), {}),
    ("/tasks/sendSubscribe", SEED, {}),
]  # fmt: skip


def follow(client: httpx.Client, stream: tuple[str, dict[str, Any], dict[str, str]], stack: ExitStack) -> Any:
    """Open a stream, and return what is left of it once its first event is there."""
    path, body, headers = stream
    response = stack.enter_context(client.stream("POST", path, json=body, headers={"A2A-Version": "1.0"} | headers))
    assert response.status_code == 200, response.read()
    lines = response.iter_lines()
    first = next(lines)
    assert first.startswith(("id:", "data:")), first
    return lines


def complaints(server: Server) -> list[str]:
    """Lines of the log that hold a trace, or that uvicorn writes when it cuts off what it serves."""
    found = [line for line in server.log.read_text().splitlines() if "Traceback" in line or "Exception in" in line]
    return found + [line["message"] for line in server.log_lines() if line["severity"] in ("ERROR", "CRITICAL")]


def test_streams_of_every_door_end_in_good_order_and_nothing_is_waited_for() -> None:
    with Server(PATIENT) as server, ExitStack() as stack:
        client = stack.enter_context(server.client(server.token()))
        calls = [stack.enter_context(GrpcCaller(address_of(server), authorization=f"Bearer {server.token()}"))] * 2
        grpc_streams = [call.call("SendStreamingMessage", said(LONG)) for call in calls]
        for stream in grpc_streams:
            next(stream)
        mcp = Mcp(server)
        ear = stack.enter_context(Ear(mcp, toolsListChanged=True))
        line = stack.enter_context(Session(mcp).listen().begun())
        followed = [follow(client, stream, stack) for stream in STREAMS * 2]

        with ThreadPoolExecutor() as pool:
            status = pool.submit(server.stop)
            # A body that is cut off in the middle of a chunk raises here.
            rest = ["".join(lines) for lines in followed]
            endings = [ending_of(stream) for stream in grpc_streams]
            ear.end()
            told = line.rest()

            assert status.result() == 0
        complained = complaints(server)

    assert not any("COMPLETED" in said or "failed" in said for said in rest)
    assert endings == [grpc.StatusCode.UNAVAILABLE] * 2
    assert told == []
    assert complained == []


def ending_of(stream: Any) -> grpc.StatusCode:
    """The status with which a stream ends."""
    with pytest.raises(grpc.RpcError) as caught:
        list(stream)
    error: Any = caught.value
    return error.code()


def test_a_request_that_outlasts_the_drain_is_told_that_the_server_stops() -> None:
    with (
        Server(PATIENT | {"DRAGOMAN_DRAIN_S": "1"}) as server,
        server.client(server.token()) as client,
        ThreadPoolExecutor() as pool,
    ):
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": text(LONG)}
        answer = pool.submit(client.post, "/a2a", json=body, headers={"A2A-Version": "1.0"})
        wait_for(lambda: "tck-long-running" in str(listed(server)), "the task")

        status = server.stop()
        complained = complaints(server)

    assert status == 0
    assert (answer.result().status_code, answer.result().headers["retry-after"]) == (503, "1")
    # uvicorn says how many it cut off, and that is all.
    assert complained == ["Cancel 1 running task(s), timeout graceful shutdown exceeded"]


def listed(server: Server) -> Any:
    """The tasks that there are."""
    with server.client(server.token()) as client:
        body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"historyLength": 5}}
        return client.post("/a2a", json=body, headers={"A2A-Version": "1.0"}).json()
