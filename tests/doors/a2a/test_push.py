"""Push notifications, to a receiver with a real socket."""

from typing import Any

from tests.doors.a2a.calling import A2A, text
from tests.doors.a2a.receiver import Receiver
from tests.doors.a2a.schema import check

AT_ONCE = {"returnImmediately": True}


def told_to(receiver: Receiver, **fields: Any) -> dict[str, Any]:
    """The configuration of a message that asks for notifications."""
    return {"taskPushNotificationConfig": {"url": receiver.url, **fields}}


def test_a_receiver_is_told_everything_in_order(a2a: A2A) -> None:
    with Receiver() as receiver:
        task = a2a.send(text("tck-stream-chunked count=5", configuration=told_to(receiver)))

        told = receiver.until("COMPLETED")

    for notification in told:
        check("StreamResponse", notification.json)
        assert notification.headers["content-type"] == "application/json"
    assert [notification.state for notification in told] == ["SUBMITTED", "WORKING", "", "", "", "", "", "COMPLETED"]
    updates = [notification.json["artifactUpdate"] for notification in told[2:-1]]
    assert [update["artifact"]["parts"][0]["text"] for update in updates] == [f"chunk-{n} " for n in range(1, 6)]
    assert {next(iter(notification.json.values()))["taskId"] for notification in told} == {task["id"]}
    assert len({notification.headers["webhook-id"] for notification in told}) == len(told)
