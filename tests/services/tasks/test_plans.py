"""However many tasks are stored, each statement goes along an index, whatever PostgreSQL is asked for."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from uuid import UUID, uuid4

import asyncpg
import pytest

from dragoman.services.tasks import store as store_state
from dragoman.services.tasks import store_views as store_read
from dragoman.services.tasks.access import Visible
from dragoman.services.tasks.engine import store, store_effects
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Cursor, Order, TaskQuery
from dragoman.services.tasks.store_lists import count_statement, list_statement
from tests.services.tasks.stored import store as put

pytestmark = pytest.mark.anyio
STATEMENTS = {
    "claim what is due": (store.CLAIM_DUE, "task_queue_due"),
    "claim what was left": (store.CLAIM_LEFT, "task_queue_leases"),
    "step of an action": (store.STEP_ALL, "tasks_pkey"),
    "step of a turn": (store.STEP_TURNS, "tasks_pkey"),
    "heartbeat": (store.HEARTBEAT, "task_queue"),
    "intend": (store_effects.INTEND, "Index Cond: ((tenant_id = g.tenant)"),
    "settle": (store_effects.SETTLE, "effects_pkey"),
    "find keys": (store_read.FIND_KEYS, "delegations_key"),
    "status": (store_read.RUNS, "delegations_runs"),
    "history": (store_read.STEPS, "task_events_pkey"),
    "state of a task": (store_state.SAVE_DATA, "tasks_pkey"),
    "state of a conversation": (store_state.SAVE_SESSION, "tasks_pkey"),
}
# A value of each filter, rare among what is stored, and the index that leads to it.
CREATED, CHANGED = partial(TaskQuery, order=Order.CREATED), partial(TaskQuery, order=Order.CHANGED)
LAST, AT = UUID(int=2**128 - 1), datetime(2100, 1, 1, tzinfo=UTC)
EVERYTHING, OWN = Visible(), Visible("rare")
LISTS = {
    "newest": (CREATED(), EVERYTHING, "tasks_pkey"),
    "next of newest": (CREATED(after=Cursor(LAST)), EVERYTHING, "tasks_pkey"),
    "action": (CREATED(action="rare.action"), EVERYTHING, "delegations_by_action"),
    "matter": (CREATED(matter="matter of rare"), EVERYTHING, "delegations_by_matter"),
    "correlation_id": (CREATED(correlation_id="c-4000"), EVERYTHING, "delegations_by_correlation"),
    "actor": (CREATED(actor="rare"), EVERYTHING, "tasks_by_owner"),
    "error": (CREATED(error="RARE"), EVERYTHING, "tasks_by_error"),
    "state": (CREATED(states=(State.FAILED,)), EVERYTHING, "tasks_by_state"),
    "own": (CREATED(), OWN, "tasks_by_owner"),
    "own and actions": (CREATED(), Visible("rare", actions=True), "tasks_pkey"),
    "last changed": (CHANGED(), EVERYTHING, "tasks_newest"),
    "next of last changed": (CHANGED(after=Cursor(LAST, AT)), EVERYTHING, "tasks_newest"),
    "changed since": (CHANGED(changed_since=AT), EVERYTHING, "tasks_newest"),
    "context": (CHANGED(context_id="c-4000"), EVERYTHING, "tasks_of_context"),
    "last changed of a state": (CHANGED(states=(State.FAILED,)), EVERYTHING, "tasks_by_state"),
    "last changed of states": (CHANGED(states=(State.FAILED, State.DEAD_LETTER)), EVERYTHING, "tasks_by_state"),
    "own, last changed": (CHANGED(), OWN, "tasks_by_owner"),
}
TENANT = uuid4()


@pytest.fixture(scope="module")
async def connection(url: str) -> AsyncIterator[asyncpg.Connection]:
    """To many stored tasks."""
    await put(url, TENANT, 1, 60_000)
    opened = await asyncpg.connect(url)
    yield opened
    await opened.close()


@pytest.mark.parametrize("name", STATEMENTS)
async def test_the_core_never_scans_what_is_stored(connection: asyncpg.Connection, name: str) -> None:
    statement, index = STATEMENTS[name]

    plan = await explain(connection, statement)

    assert index in plan
    assert scans(plan) == []


@pytest.mark.parametrize("name", LISTS)
async def test_a_list_goes_along_the_index_of_its_filter(connection: asyncpg.Connection, name: str) -> None:
    """Row-level security included: it lets some conditions be looked at only after it."""
    query, visible, index = LISTS[name]

    await connection.execute("SET ROLE dragoman_app")
    try:
        statement, values = list_statement(query, visible, columns=store_read.SUMMARY_COLUMNS)
        rows = await connection.fetch(f"EXPLAIN {statement}", TENANT, *values)
        counting, values = count_statement(query, visible)
        counted = await connection.fetch(f"EXPLAIN {counting}", TENANT, *values)
    finally:
        await connection.execute("RESET ROLE")

    plan = "\n".join(row[0] for row in rows)
    assert index in plan
    assert scans(plan) == []
    assert "Limit" in counted[1][0]
    if (replace(query, after=None), visible) not in ((CREATED(), EVERYTHING), (CHANGED(), EVERYTHING)):
        assert scans("\n".join(row[0] for row in counted)) == []


async def explain(connection: asyncpg.Connection, statement: str) -> str:
    """The plan for whatever values come, as a statement has it that was run often."""
    places = len(set(re.findall(r"\$\d+", statement)))
    await connection.execute("SET ROLE dragoman_core; SET enable_seqscan = off")
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    await connection.execute(f"PREPARE asked AS {statement}")
    try:
        rows = await connection.fetch(f"EXPLAIN EXECUTE asked ({', '.join(['NULL'] * places)})")
    finally:
        await connection.execute("DEALLOCATE asked")
        await connection.execute("RESET ROLE; RESET enable_seqscan; RESET plan_cache_mode")
    return "\n".join(row[0] for row in rows)


def scans(plan: str) -> list[str]:
    """The tables that are read from end to end."""
    return re.findall(r"Seq Scan on (?:tasks|delegations|task_events|task_queue|effects)\b", plan)
