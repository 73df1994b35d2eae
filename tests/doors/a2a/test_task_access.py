"""Who may touch a conversation: its owner and the administrators of its tenant; to others it does not exist."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.backstage import sql
from tests.doors.a2a.calling import A2A, busy, state, text, tool, unnumbered
from tests.harness import Server


@pytest.fixture
def owner(served: Server) -> A2A:
    return A2A(served, user="olive", role="agent")


@pytest.fixture
def task(owner: A2A) -> dict[str, Any]:
    task = owner.send(text("tck-input-required"))
    assert state(task) == "INPUT_REQUIRED"
    return task


@pytest.mark.parametrize("role", ["agent", "operator"])
@pytest.mark.parametrize("method", ["GetTask", "CancelTask"])
def test_a_conversation_of_another_is_refused_as_one_that_does_not_exist(
    served: Server, task: dict[str, Any], role: str, method: str
) -> None:
    other = A2A(served, user="mallory", role=role)
    missing = str(uuid4())

    refused, unknown = other.error(method, {"id": task["id"]}), other.error(method, {"id": missing})

    assert unnumbered(refused).replace(task["id"], missing) == unnumbered(unknown)


def test_an_answer_of_another_is_refused_and_the_task_still_waits(
    served: Server, owner: A2A, task: dict[str, Any]
) -> None:
    refused = A2A(served, user="mallory", role="agent").error("SendMessage", text("mine", taskId=task["id"]))

    assert refused["data"][0]["reason"] == "TASK_NOT_FOUND"
    assert state(owner.get(task["id"])) == "INPUT_REQUIRED"


@pytest.mark.parametrize(("role", "listed"), [("viewer", False), ("agent", False), ("org_admin", True)])
def test_a_list_holds_what_its_caller_may_see(served: Server, task: dict[str, Any], role: str, *, listed: bool) -> None:
    page = A2A(served, user="mallory", role=role).call("ListTasks", {"contextId": task["contextId"]})

    assert [one["id"] for one in page["tasks"]] == [task["id"]] * listed
    assert page["totalSize"] == listed


def test_an_administrator_of_the_tenant_may_end_a_conversation(
    served: Server, owner: A2A, task: dict[str, Any]
) -> None:
    A2A(served, user="rita", role="org_admin").call("CancelTask", {"id": task["id"]})

    assert state(owner.get(task["id"])) == "CANCELED"


@pytest.mark.parametrize("role", ["agent", "org_admin"])
def test_a_context_id_of_another_names_a_conversation_of_ones_own(served: Server, owner: A2A, role: str) -> None:
    talk = str(uuid4())
    asked = owner.send(text("tck-multi-turn secret", contextId=talk))
    other = A2A(served, user="mallory", role=role)

    begun = other.send(text("tck-multi-turn mine", contextId=talk))
    unknown = other.send(text("tck-multi-turn mine", contextId=str(uuid4())))
    rows = sql(served, "SELECT owner, conversation_context::text AS said FROM threads WHERE thread_id = $1", talk)
    ended = other.send(text("done", taskId=begun["id"]))
    done = owner.send(text("done", taskId=asked["id"]))

    shape = [
        {name: value for name, value in task.items() if name in ("status", "history")} for task in (begun, unknown)
    ]
    assert [without_ids(task) for task in shape[:1]] == [without_ids(task) for task in shape[1:]]
    held = {row["owner"]: row["said"] for row in rows}
    assert set(held) == {"olive", "mallory"}
    assert ("secret" in held["olive"], "secret" in held["mallory"], "mine" in held["olive"]) == (True, False, False)
    assert (begun["contextId"], state(ended), state(done)) == (talk, "COMPLETED", "COMPLETED")


def without_ids(shown: Any) -> Any:
    """Return what is shown without what is new in every answer."""
    if isinstance(shown, dict):
        fresh = ("messageId", "taskId", "contextId", "timestamp", "id")
        return {name: without_ids(value) for name, value in shown.items() if name not in fresh}
    return [without_ids(one) for one in shown] if isinstance(shown, list) else shown


def test_one_conversation_does_not_hold_up_another_of_the_same_context_id(
    served: Server, owner: A2A, tmp_path: Path
) -> None:
    talk, at_once = str(uuid4()), {"returnImmediately": True}
    owner.send(busy(tmp_path / "go", contextId=talk, configuration=at_once))

    done = A2A(served, user="mallory", role="agent").send(text("hello", contextId=talk))

    assert state(done) == "COMPLETED"
    (tmp_path / "go").touch()


def test_moving_a_task_by_hand_needs_a_permission_of_its_own(owner: A2A, task: dict[str, Any]) -> None:
    move = {"task_id": task["id"], "to": "succeeded", "reason": "because"}

    moved = owner.send(tool("task_transition", move))

    assert state(moved) in ("FAILED", "REJECTED")
    assert "manage:tasks" in str(moved)
    assert state(owner.get(task["id"])) == "INPUT_REQUIRED"
