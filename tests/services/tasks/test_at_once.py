"""The same envelope through three doors in the same moment: one task, one effect."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import httpx

from tests.backstage import sql
from tests.harness import Server, wait_for
from tests.patience import PATIENCE_S
from tests.services.tasks.doors import Json, a2a, mcp, rest
from tests.services.tasks.envelopes import envelope

# In the suite a hundred; by hand a thousand: AT_ONCE_ROUNDS=1000 pytest tests/services/tasks/test_at_once.py
ROUNDS = int(os.environ.get("AT_ONCE_ROUNDS", "100"))


def test_one_key_through_three_doors_at_once_is_one_task_with_one_effect(counting: Server, outside: Path) -> None:
    token, barrier = counting.token(), Barrier(3)
    given = [
        envelope("count.once", {"name": f"at-once-{number}"}, matter={"id": "at-once"}) for number in range(ROUNDS)
    ]

    def hand_over(door: Callable[[httpx.Client, str, Json], Json]) -> list[str]:
        found: list[str] = []
        with counting.client(token) as client:
            for one in given:
                barrier.wait(PATIENCE_S)
                found.append(door(client, "task_submit", {"envelope": one})["task_id"])
        return found

    with ThreadPoolExecutor(3) as pool:
        by_a2a, by_mcp, by_rest = pool.map(hand_over, (a2a, mcp, rest))

    assert by_a2a == by_mcp == by_rest
    assert len(set(by_rest)) == ROUNDS
    count = "SELECT count(*) AS n FROM delegations d JOIN tasks t ON t.id = d.task_id WHERE d.matter = 'at-once'"
    assert sql(counting, count)[0]["n"] == ROUNDS
    ended = f"{count} AND t.state = 'succeeded'"
    wait_for(lambda: sql(counting, ended)[0]["n"] == ROUNDS, "the end of every task")
    assert {len((outside / f"at-once-{number}").read_text().splitlines()) for number in range(ROUNDS)} == {1}
