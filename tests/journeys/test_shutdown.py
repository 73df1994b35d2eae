"""SIGTERM: open streams end in good order, on every door, and the server is gone as soon as they have."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import grpc
import httpx
import pytest

from tests.backstage import locked
from tests.doors.a2a.calling import CONFORMANCE, text
from tests.doors.a2a.grpc_calling import GrpcCaller, address_of, said
from tests.doors.mcp.calling import MODERN, OLDER, Ear, Line, Mcp, Session, read
from tests.harness import Process, Server, wait_for

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


def calling(mcp: Mcp, era: str, *, progress: bool, session: Session | None = None) -> httpx.Request:
    """A call of a skill that takes long, by a client of this era."""
    params: dict[str, Any] = {"name": "conformance", "arguments": {"text": LONG}}
    named = {"mcp_session_id": session.id} if session is not None else {}
    return mcp.request("tools/call", params | ({"_meta": {"progressToken": 1}} if progress else {}), era=era, **named)


def test_mcp_calls_that_wait_for_a_task_are_told_that_the_server_stops_and_which_task_goes_on() -> None:
    """In both eras, with a session and without, for those who hear of progress and those who do not."""
    with Server(PATIENT) as server, ExitStack() as stack, ThreadPoolExecutor(8) as pool:
        mcp = Mcp(server)
        stack.callback(mcp.http.close)
        session = Session(mcp)
        requests = [
            calling(mcp, MODERN, progress=False),
            calling(mcp, MODERN, progress=True),
            calling(mcp, OLDER, progress=False),
            calling(mcp, OLDER, progress=True),
            calling(mcp, OLDER, progress=False, session=session),
            calling(mcp, OLDER, progress=True, session=session),
        ]
        # A body that is cut off in the middle of a chunk raises here.
        answers = [pool.submit(mcp.http.send, request) for request in requests]
        wait_for(lambda: len(working(server)) == len(requests), "the tasks")
        begun = working(server)

        status = server.stop()
        results = [read(answer.result())["result"] for answer in answers]
        complained = complaints(server)

    assert status == 0
    assert complained == []
    assert [result["isError"] for result in results] == [True] * len(results)
    told = [result["structuredContent"] for result in results]
    assert [(one["error"]["code"], one["error"]["retry_after_s"]) for one in told] == [("UPSTREAM_UNAVAILABLE", 1)] * 6
    assert {one["task_id"] for one in told} == begun


def working(server: Server) -> set[str]:
    """The ids of the tasks that are under way."""
    tasks = listed(server)["result"]["tasks"]
    return {task["id"] for task in tasks if task["status"]["state"] == "TASK_STATE_WORKING"}


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


def test_a_stream_that_outlasts_the_drain_ends_with_a_complete_response() -> None:
    """One that waits for neither a task nor a person: an operation that the database holds up."""
    with Process(PATIENT | {"DRAGOMAN_DRAIN_S": "1"}) as server, ExitStack() as stack:
        mcp = Mcp(server)
        stack.callback(mcp.http.close)
        stack.enter_context(locked(server, "audit_records"))
        request = mcp.request("tools/call", {"name": "audit_list", "arguments": {}}, era=OLDER)
        line = stack.enter_context(Line(mcp.http.send(request, stream=True)))

        status = server.stop()
        # A body that is cut off in the middle of a chunk raises here.
        rest = line.rest()
        complained = complaints(server)

    assert (line.status, status, rest) == (200, 0, [])
    # uvicorn says how many it cut off, and that is all.
    assert complained == ["Cancel 1 running task(s), timeout graceful shutdown exceeded"]


def listed(server: Server) -> Any:
    """The tasks that there are."""
    with server.client(server.token()) as client:
        body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"historyLength": 5}}
        return client.post("/a2a", json=body, headers={"A2A-Version": "1.0"}).json()
