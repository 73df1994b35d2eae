import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.backstage import sql
from tests.doors.a2a.calling import A2A, busy, state, text, tool
from tests.harness import Server, wait_for
from tests.patience import PATIENCE_S

AT_ONCE = {"returnImmediately": True}


@pytest.mark.req("A2A-PR-3")
def test_a_stream_is_the_task_then_its_news_then_its_end(a2a: A2A) -> None:
    events = a2a.events("SendStreamingMessage", text("tck-stream-basic hello"))

    assert [next(iter(event)) for _, event in events] == ["task", "statusUpdate", "artifactUpdate", "statusUpdate"]
    first, progress, artifact, last = (event for _, event in events)
    assert state(first["task"]) == "WORKING"
    assert progress["statusUpdate"]["status"]["message"]["parts"] == [{"text": "working"}]
    assert artifact["artifactUpdate"]["artifact"]["parts"] == [{"text": "Streamed: tck-stream-basic hello"}]
    assert state(last["statusUpdate"]) == "COMPLETED"
    numbers = [number for number, _ in events]
    assert numbers == sorted(set(numbers))
    done = a2a.get(first["task"]["id"])
    assert done["artifacts"] == [artifact["artifactUpdate"]["artifact"]]


def test_chunks_come_in_order_and_make_the_artifact(a2a: A2A) -> None:
    events = a2a.events("SendStreamingMessage", text("tck-stream-chunked count=20"))

    updates = [event["artifactUpdate"] for _, event in events if "artifactUpdate" in event]
    assert [update["artifact"]["parts"][0]["text"] for update in updates] == [f"chunk-{n} " for n in range(1, 21)]
    assert [(update["append"], update["lastChunk"]) for update in updates[:2]] == [(False, False), (True, False)]
    assert updates[-1]["lastChunk"]
    [made] = a2a.get(events[0][1]["task"]["id"])["artifacts"]
    assert "".join(part["text"] for part in made["parts"]) == "".join(f"chunk-{n} " for n in range(1, 21))


def test_a_stream_of_a_named_tool(a2a: A2A) -> None:
    events = a2a.events("SendStreamingMessage", tool("identity_show"))

    assert "task" in events[0][1]
    last = events[-1][1]
    assert state(last.get("statusUpdate") or last["task"]) == "COMPLETED"


def test_a_stream_ends_when_the_task_asks(a2a: A2A) -> None:
    events = a2a.events("SendStreamingMessage", text("tck-input-required"))

    last = events[-1][1]
    assert state(last.get("statusUpdate") or last["task"]) == "INPUT_REQUIRED"


def test_the_drafts_of_an_unfinished_task_are_shown(a2a: A2A) -> None:
    with a2a.stream("SendStreamingMessage", text("tck-draft seconds=20")) as events:
        seen = next(event for _, event in events if "artifactUpdate" in event)["artifactUpdate"]
        task = a2a.get(seen["taskId"])
        a2a.call("CancelTask", {"id": task["id"]})

    assert task["artifacts"] == [seen["artifact"]]
    assert "artifacts" not in a2a.get(task["id"])


def test_a_subscriber_gets_the_task_and_what_follows(a2a: A2A, tmp_path: Path) -> None:
    begun = a2a.send(busy(tmp_path / "go", configuration=AT_ONCE))

    with a2a.stream("SubscribeToTask", {"id": begun["id"]}) as stream:
        _, first = next(stream)
        (tmp_path / "go").touch()
        *_, (_, last) = stream

    assert first["task"]["id"] == begun["id"]
    assert state(last["statusUpdate"]) == "COMPLETED"


def test_one_who_was_cut_off_gets_exactly_what_was_missed(a2a: A2A) -> None:
    with a2a.stream("SendStreamingMessage", text("tck-long-running seconds=1")) as stream:
        task = next(stream)[1]["task"]
        before = [next(stream)[0], next(stream)[0]]

    after = a2a.events("SubscribeToTask", {"id": task["id"]}, **{"Last-Event-ID": str(before[-1])})
    again = a2a.events("SubscribeToTask", {"id": task["id"]}, **{"Last-Event-ID": str(before[0])})

    assert state(after[-1][1]["statusUpdate"]) == "COMPLETED"
    assert [number for number, _ in after] == [before[-1] + 1 + place for place in range(len(after))]
    assert again[1:] == after
    assert a2a.error("SubscribeToTask", {"id": task["id"]}, **{"Last-Event-ID": str(after[-1][0])})["code"] == -32004


def test_many_who_subscribe_see_the_same(a2a: A2A, tmp_path: Path) -> None:
    begun = a2a.send(busy(tmp_path / "go", configuration=AT_ONCE))
    all_there = threading.Barrier(5, (tmp_path / "go").touch)

    def follow(_: int) -> list[int]:
        with a2a.stream("SubscribeToTask", {"id": begun["id"]}) as stream:
            assert "task" in next(stream)[1]
            all_there.wait(PATIENCE_S)
            return [number for number, _ in stream]

    with ThreadPoolExecutor(5) as pool:
        seen = list(pool.map(follow, range(5)))

    longest = max(seen, key=len)
    assert all(numbers == longest[len(longest) - len(numbers) :] for numbers in seen)
    assert all(numbers for numbers in seen)


def test_a_subscriber_of_a_task_that_waits_hears_how_it_goes_on(a2a: A2A, served: Server) -> None:
    task = a2a.send(text("tck-multi-turn"))
    heard = threading.Event()

    def follow() -> list[str]:
        with A2A(served).stream("SubscribeToTask", {"id": task["id"]}) as stream:
            assert state(next(stream)[1]["task"]) == "INPUT_REQUIRED"
            heard.set()
            return [state(event["statusUpdate"]) for _, event in stream if "statusUpdate" in event]

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(follow)
        assert heard.wait(PATIENCE_S)
        a2a.send(text("done", taskId=task["id"]))

        assert following.result(PATIENCE_S) == ["WORKING", "COMPLETED"]


def test_a_task_that_has_ended_cannot_be_subscribed(a2a: A2A) -> None:
    task = a2a.send(text("hello"))

    error = a2a.error("SubscribeToTask", {"id": task["id"]})

    assert (error["code"], error["data"][0]["reason"]) == (-32004, "UNSUPPORTED_OPERATION")


def test_a_reader_that_leaves_ends_its_stream_and_not_the_task(a2a: A2A, served: Server) -> None:
    with a2a.stream("SendStreamingMessage", text("tck-long-running seconds=2")) as stream:
        task = next(stream)[1]["task"]

    wait_for(lambda: _open_requests(a2a) == 1, "the stream to be closed")
    wait_for(lambda: state(a2a.get(task["id"])) == "COMPLETED", "the task to end")


def test_thousands_of_chunks_are_not_dearer_each(a2a: A2A, served: Server) -> None:
    events = a2a.events("SendStreamingMessage", text("tck-stream-chunked count=2000"))

    assert len([event for _, event in events if "artifactUpdate" in event]) == 2000
    task = events[0][1]["task"]
    [row] = sql(served, "SELECT count(*) AS n, max(seq) AS seq FROM task_events WHERE task_id = $1::uuid", task["id"])
    assert row["n"] == row["seq"] == events[-1][0]


@pytest.mark.parametrize("bad", ["x", "-1", "1.5", "9" * 40])
def test_a_last_event_id_that_is_none_is_refused(a2a: A2A, bad: str) -> None:
    task = a2a.send(text("tck-input-required"))

    assert a2a.error("SubscribeToTask", {"id": task["id"]}, **{"Last-Event-ID": bad})["code"] == -32602


def _open_requests(a2a: A2A) -> int:
    lines = a2a.http.get("/metrics").text.splitlines()
    return int(float(next(line for line in lines if line.startswith("dragoman_open_requests ")).split()[1]))
