"""One who does not read costs the server nothing, holds up nobody, and misses nothing."""

from typing import Any
from uuid import uuid4

from a2a.types import a2a_pb2 as pb

from tests.backstage import resident_bytes
from tests.doors.a2a.calling import A2A, sse, state, text, tool
from tests.doors.a2a.grpc_calling import GrpcCaller, address_of, said
from tests.doors.a2a.heavy_agent import piece
from tests.harness import Server, wait_for

SIZE = 65_536
VOLUME_BYTES = 104_857_600
# Ten are held at most; the rest is what an allocator keeps for itself, a fifth of what would pile up.
BOUND_BYTES = 20_971_520


def test_a_reader_of_sse_that_stalls_is_not_waited_for_in_memory(heavy: Server) -> None:
    count, context_id, reader, other = VOLUME_BYTES // SIZE, uuid4().hex, A2A(heavy), A2A(heavy)
    other.send(text(f"drafts 100 {SIZE}"))
    before = resident_bytes(heavy)

    asked = text(f"drafts {count} {SIZE}", contextId=context_id)
    with reader.http.stream("POST", "/a2a/rest/message:stream", json=asked) as response:
        # Nothing is read while the task runs to its end.
        task_id = _ended(other, context_id)
        held = resident_bytes(heavy) - before
        answered = other.send(tool("identity_show"))
        pages = [event["artifactUpdate"]["artifact"] for _, event in sse(response) if "artifactUpdate" in event]

    assert held < BOUND_BYTES
    assert state(answered) == "COMPLETED"
    assert [page["parts"] for page in pages] == [[{"text": piece(number, SIZE)}] for number in range(count)]
    assert other.get(task_id)["artifacts"] == pages[-1:]


def test_a_reader_of_grpc_that_stalls_is_not_waited_for_in_memory(heavy: Server) -> None:
    count, context_id, other = VOLUME_BYTES // SIZE, uuid4().hex, A2A(heavy)
    other.send(text(f"drafts 100 {SIZE}"))

    with GrpcCaller(address_of(heavy), authorization=f"Bearer {heavy.token()}") as reader:
        # The first call loads the library, which is not what is measured; it also makes this connection a relayed one.
        reader.call("ListTasks", pb.ListTasksRequest())
        before = resident_bytes(heavy)
        events: Any = reader.call("SendStreamingMessage", said(f"drafts {count} {SIZE}", context_id=context_id))
        _ended(other, context_id)
        held = resident_bytes(heavy) - before
        pages = [event.artifact_update.artifact for event in events if event.HasField("artifact_update")]

    assert held < BOUND_BYTES
    assert [page.parts[0].text for page in pages] == [piece(number, SIZE) for number in range(count)]


def test_a_reader_that_stalls_and_leaves_goes_on_where_it_was(heavy: Server) -> None:
    count, context_id, other = 300, uuid4().hex, A2A(heavy)
    with A2A(heavy).stream("SendStreamingMessage", text(f"progress {count} {SIZE}", contextId=context_id)) as events:
        seen = [next(events) for _ in range(3)]
        task_id = _ended(other, context_id)

    rest = other.events("SubscribeToTask", {"id": task_id}, **{"Last-Event-ID": str(seen[-1][0])})

    told = [event["statusUpdate"]["status"] for _, event in [*seen[1:], *rest]]
    words = [status["message"]["parts"][0]["text"] for status in told if "message" in status]
    assert words == [*(piece(number, SIZE) for number in range(count)), "done"]
    assert told[-1]["state"] == "TASK_STATE_COMPLETED"


def _ended(caller: A2A, context_id: str) -> str:
    """The id of the only task of a conversation, once it has ended."""

    def find() -> str | None:
        tasks = caller.call("ListTasks", {"contextId": context_id, "status": "TASK_STATE_COMPLETED"})["tasks"]
        return tasks[0]["id"] if tasks else None

    return wait_for(find, "the end of the task")
