"""What a task was busy with stands in its log, and costs no write of its own."""

from pathlib import Path

from tests.backstage import sql
from tests.doors.a2a.calling import A2A, CONFORMANCE, state, tool
from tests.harness import Server
from tests.tenants import beside

EXPENSES = str(Path(__file__).parents[3] / "examples" / "expenses")


def test_a_task_notes_that_it_waits_for_a_tool_and_goes_on(served: Server) -> None:
    with Server(CONFORMANCE | beside(served) | {"PYTHONPATH": EXPENSES}) as expenses:
        task = A2A(expenses, keys_of=served).send(tool("may_claim", {"amount": 5}))

    assert state(task) == "COMPLETED"
    log = sql(
        served, "SELECT body::text, xmin::text FROM task_events WHERE task_id = $1::uuid ORDER BY seq", task["id"]
    )
    noted = [row["body"] for row in log if '"activity"' in row["body"]]
    assert ["awaiting_tool" in noted[0], "may_claim" in noted[0], "executing" in noted[1]] == [True, True, True]
    assert len({row["xmin"] for row in log}) == 1
