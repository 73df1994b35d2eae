"""What is larger than it may be is refused in words that programs know, and the server is none the worse for it."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict

from tests.backstage import resident_bytes, sql
from tests.doors.a2a.calling import A2A, error_of, params, state, text, tool
from tests.doors.a2a.grpc_calling import GrpcCaller, address_of, refused, said
from tests.harness import Server

CAP_BYTES = 10_485_760
HUGE_BYTES = 104_857_600
# What a hundred megabytes may leave behind; those who hold them twice or keep them are found out.
LEFT_BYTES = 26_214_400
TOO_LARGE = {"code": "ARTIFACT_TOO_LARGE", "details": {"limit_bytes": CAP_BYTES},
             "message": f"what the task made exceeds {CAP_BYTES} bytes"}  # fmt: skip


@pytest.fixture
def unharmed(heavy: Server) -> Iterator[None]:
    """Whatever happens meanwhile, the server answers afterwards, and has kept little of it."""
    caller = A2A(heavy)
    caller.send(text("text 1 1000000"))
    # The first call over gRPC loads the library, which is not what is measured.
    with GrpcCaller(address_of(heavy), authorization=f"Bearer {heavy.token()}") as grpc_caller:
        grpc_caller.call("ListTasks", pb.ListTasksRequest())
    before = resident_bytes(heavy)
    yield
    assert state(caller.send(tool("identity_show"))) == "COMPLETED"
    assert resident_bytes(heavy) - before < LEFT_BYTES


@pytest.mark.parametrize("what", ["text", "file", "words", "reply", "question"])
@pytest.mark.usefixtures("unharmed")
def test_a_task_that_makes_a_hundred_megabytes_fails_by_name(heavy: Server, what: str) -> None:
    task = A2A(heavy).send(text(f"{what} 1 {HUGE_BYTES}"))

    assert (state(task), error_of(task)) == ("FAILED", TOO_LARGE)
    assert "artifacts" not in task


@pytest.mark.usefixtures("unharmed")
def test_the_failure_is_the_same_over_http(heavy: Server) -> None:
    response = A2A(heavy).http.post("/a2a/rest/message:send", json=text(f"text 1 {HUGE_BYTES}"))

    assert response.status_code == 200
    assert error_of(response.json()["task"]) == TOO_LARGE


@pytest.mark.usefixtures("unharmed")
def test_the_failure_is_the_same_over_grpc(heavy: Server) -> None:
    with GrpcCaller(address_of(heavy), authorization=f"Bearer {heavy.token()}") as caller:
        task: Any = MessageToDict(caller.call("SendMessage", said(f"text 1 {HUGE_BYTES}")).task)

    assert (state(task), error_of(task)) == ("FAILED", TOO_LARGE)


@pytest.mark.usefixtures("unharmed")
def test_pieces_that_come_to_too_much_end_the_task_and_stay_in_its_log(heavy: Server) -> None:
    events = [event for _, event in A2A(heavy).events("SendStreamingMessage", text("chunks 100 1048576"))]

    assert error_of(events[-1]["statusUpdate"]) == TOO_LARGE
    assert sum("artifactUpdate" in event for event in events) == CAP_BYTES // 1_048_576


def test_what_is_as_large_as_it_may_be_is_kept_whole(heavy: Server) -> None:
    task = A2A(heavy).send(text(f"text 1 {CAP_BYTES}"))

    assert A2A(heavy).get(task["id"])["artifacts"] == task["artifacts"]
    assert len(task["artifacts"][0]["parts"][0]["text"]) == CAP_BYTES


def test_what_is_made_anew_counts_once(heavy: Server) -> None:
    task = A2A(heavy).send(text("drafts 12 1048576"))

    assert state(task) == "COMPLETED"


def test_what_was_shown_before_a_question_is_part_of_the_end(heavy: Server) -> None:
    caller = A2A(heavy)
    asked = caller.send(text("question 1 10"))

    task = caller.send(text("go on", taskId=asked["id"], contextId=asked["contextId"]))

    assert [(made["name"], made["parts"]) for made in task["artifacts"]] == [
        ("draft", [{"text": "begun"}]),
        ("end", [{"text": "ended"}]),
    ]


@pytest.mark.parametrize("asked", ["state 3 400000", "state 1100 0", "together 20 100000", "anew 1 1048576"])
def test_a_skill_that_keeps_more_for_its_task_than_it_may_fails(heavy: Server, asked: str) -> None:
    task = A2A(heavy).send(text(asked))

    error = error_of(task)
    [kept] = sql(
        heavy, "SELECT sum(octet_length(value::text)) AS n FROM task_data WHERE task_id = $1::uuid", task["id"]
    )
    assert (error["code"], error["details"]) == ("TASK_STATE_TOO_LARGE", {"limit_bytes": 1_048_576})
    assert (kept["n"] or 0) <= 1_048_576


def test_a_value_that_is_kept_anew_counts_once(heavy: Server) -> None:
    assert state(A2A(heavy).send(text("anew 5 1000000"))) == "COMPLETED"


@pytest.mark.parametrize("address", ["/a2a", "/a2a/rest/message:send"])
@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.usefixtures("unharmed")
def test_a_message_of_a_hundred_megabytes_is_refused(heavy: Server, address: str, *, announced: bool) -> None:
    piece = b"x" * 1_048_576
    length = {"Content-Length": str(100 * len(piece))} if announced else {}
    headers = {"Content-Type": "application/json", **length}

    response = A2A(heavy).http.post(address, content=(piece for _ in range(100)), headers=headers)

    assert (response.status_code, _code(response)) == (413, "PAYLOAD_TOO_LARGE")


@pytest.mark.usefixtures("unharmed")
def test_a_message_of_a_hundred_megabytes_is_refused_over_grpc(heavy: Server) -> None:
    with GrpcCaller(address_of(heavy), authorization=f"Bearer {heavy.token()}") as caller:
        error = refused(lambda: caller.call("SendMessage", said("x" * HUGE_BYTES)))

    assert error.code().name == "RESOURCE_EXHAUSTED"


@pytest.mark.usefixtures("unharmed")
def test_a_file_that_a_conversation_cannot_hold_is_refused(heavy: Server) -> None:
    raw = {"raw": "eHh4" * 1_000_000, "mediaType": "text/plain"}

    error = A2A(heavy).error("SendMessage", params(raw))

    assert error["data"][0]["reason"] == "STATE_TOO_LARGE"


def _code(response: httpx.Response) -> str:
    body = response.json()
    return body["code"] if "code" in body else body["error"]["details"][0]["reason"]
