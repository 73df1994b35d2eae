"""Pieces of an artifact come in their order, none lost, and cost few writes."""

from tests.backstage import sql
from tests.doors.a2a.calling import A2A, state, text
from tests.harness import Server

COUNT = 4000


def test_thousands_of_pieces_are_shown_in_order_and_written_in_few_transactions(served: Server, a2a: A2A) -> None:
    events = [
        event for _, event in a2a.events("SendStreamingMessage", text(f"tck-stream-artifact-chunked count={COUNT}"))
    ]

    pieces = [event["artifactUpdate"]["artifact"]["parts"] for event in events if "artifactUpdate" in event]
    assert pieces == [[{"text": f"chunk-{number} "}] for number in range(1, COUNT + 1)]
    assert state(events[-1]["statusUpdate"]) == "COMPLETED"
    task_id = events[0]["task"]["id"]
    written = "SELECT count(*) AS n, count(DISTINCT xmin::text) AS writes FROM task_events WHERE task_id = $1::uuid"
    [log] = sql(served, written, task_id)
    assert log["n"] >= COUNT
    assert log["writes"] <= COUNT / 20
