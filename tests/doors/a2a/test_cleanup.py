"""What has had its time is removed, what has not is kept, and the metrics say so."""

from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.infra.config import load_settings
from tests.backstage import metrics, sql
from tests.doors.a2a.calling import A2A, CONFORMANCE, state, text, tool
from tests.harness import InProcess, Server, wait_for
from tests.tenants import new_tenant

DAY = "now() - interval '1 day'"
CLEANED = 'dragoman_cleanup_removed_total{what="%s"}'


@pytest.fixture(scope="module")
def cleaning() -> Iterator[Server]:
    """A server that cleans up every second, and keeps tasks for an hour."""
    with InProcess(
        CONFORMANCE | {"DRAGOMAN_THREADS__CLEANUP_S": "1", "DRAGOMAN_TASKS__RETENTION_S": "3600"}
    ) as running:
        yield running


def rows(server: Server, task: dict[str, Any]) -> dict[str, int]:
    counted = "SELECT count(*) AS n FROM {} WHERE {} = $1::uuid"
    tables = {"tasks": "id", "task_events": "task_id", "task_data": "task_id", "push_configs": "task_id"}
    return {table: sql(server, counted.format(table, key), task["id"])[0]["n"] for table, key in tables.items()}


@pytest.mark.req("RAD-H5-1", "RAD-H5-2")
def test_conversation_context_has_an_end_and_the_clean_up_job_empties_it_and_counts(cleaning: Server) -> None:
    caller = A2A(cleaning)
    kept, stale = (caller.send(text("tck-multi-turn"))["contextId"] for _ in range(2))
    [thread] = sql(cleaning, "SELECT * FROM threads WHERE thread_id = $1", stale)
    assert (thread["context_expires_at"] - thread["updated_at"]).total_seconds() == pytest.approx(3600, abs=1)
    before = metrics(cleaning)

    sql(cleaning, f"UPDATE threads SET context_expires_at = {DAY} WHERE thread_id = $1", stale)
    wait_for(lambda: metrics(cleaning)[CLEANED % "contexts"] > before[CLEANED % "contexts"], "the clean-up")

    held = {row["thread_id"]: row["bytes"] for row in sql(cleaning, "SELECT thread_id, bytes FROM threads")}
    assert (held[stale], held[kept] > 0) == (0, True)
    after = metrics(cleaning)
    assert after["dragoman_cleanup_seconds_count"] > 0
    assert after["dragoman_cleanup_last_run_timestamp_seconds"] > 0
    assert any(line["message"] == "cleanup.done" and line["contexts"] == 1 for line in cleaning.log_lines())


@pytest.mark.req("RAD-H5-2")
def test_the_clean_up_runs_every_five_minutes_unless_configured_otherwise() -> None:
    """That the job keeps to its setting, the servers of these tests show, which clean up every second."""
    assert load_settings({}).threads.cleanup_s == 300


def test_a_conversation_that_is_long_gone_is_forgotten(cleaning: Server) -> None:
    context = A2A(cleaning).send(text("hello"))["contextId"]
    gone = "UPDATE threads SET context_expires_at = $2, expires_at = $2 WHERE thread_id = $1".replace(
        "$2", "now() - interval '8 days'"
    )

    sql(cleaning, gone, context)

    wait_for(lambda: not sql(cleaning, "SELECT 1 FROM threads WHERE thread_id = $1", context), "the clean-up")


def test_a_task_that_ended_long_ago_is_removed_whole_and_one_that_waits_is_kept(cleaning: Server) -> None:
    caller = A2A(cleaning)
    ended, fresh, waiting = (
        caller.send(tool("identity_show")),
        caller.send(text("hello")),
        caller.send(text("tck-multi-turn")),
    )
    hook = {"taskId": ended["id"], "url": "https://example.com/hook"}
    caller.call("CreateTaskPushNotificationConfig", hook)
    before = metrics(cleaning)

    old = f"UPDATE tasks SET status_at = {DAY} WHERE id = ANY($1::uuid[])"
    sql(cleaning, old, [ended["id"], waiting["id"]])
    wait_for(lambda: metrics(cleaning)[CLEANED % "tasks"] > before[CLEANED % "tasks"], "the clean-up")

    assert rows(cleaning, ended) == {"tasks": 0, "task_events": 0, "task_data": 0, "push_configs": 0}
    assert caller.error("GetTask", {"id": ended["id"]})["code"] == -32001
    assert caller.get(fresh["id"]) == fresh
    assert state(caller.send(text("done", taskId=waiting["id"]))) == "COMPLETED"


def test_more_than_a_batch_is_removed_in_one_go(cleaning: Server) -> None:
    task = A2A(cleaning).send(text("hello"))
    copies = """
        INSERT INTO tasks (tenant_id, id, context_id, owner, state, status_at, caller)
        SELECT tenant_id, gen_random_uuid(), context_id, owner, state, now() - interval '1 day', caller
        FROM tasks, generate_series(1, 1200) WHERE id = $1::uuid"""
    before = metrics(cleaning)[CLEANED % "tasks"]

    sql(cleaning, copies, task["id"])
    wait_for(lambda: metrics(cleaning)[CLEANED % "tasks"] == before + 1200, "the clean-up")

    assert sql(cleaning, f"SELECT count(*) AS n FROM tasks WHERE status_at < {DAY}")[0]["n"] == 0


def test_what_is_stored_after_its_tenant_was_deleted_goes_without_waiting_for_its_time(cleaning: Server) -> None:
    """As of a message that was under way in another process at that moment."""
    slug = new_tenant(cleaning)
    task = A2A(cleaning, tenant=slug).send(text("tck-multi-turn"))

    # Past the triggers that empty the tenant.
    sql(cleaning, "WITH past AS (SELECT set_config('session_replication_role', 'replica', false)) "
        "UPDATE tenants SET status = 'deleted' FROM past WHERE slug = $1", slug)  # fmt: skip

    wait_for(lambda: not any(rows(cleaning, task).values()), "the clean-up")
    assert sql(cleaning, "SELECT 1 FROM task_queue WHERE task_id = $1::uuid", task["id"]) == []
