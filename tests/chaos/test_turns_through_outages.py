"""A database that is away for a moment ends no conversation."""

from uuid import uuid4

import pytest

from tests.chaos.installation import Installation
from tests.harness import wait_for


@pytest.mark.parametrize("fence", ["progress", "state"])
def test_a_turn_that_fails_because_postgresql_was_away_is_run_again(site: Installation, fence: str) -> None:
    name = f"away-{uuid4().hex[:8]}"
    caller = site.caller("s1")
    task_id = caller.say({"name": name, "fence": fence})
    site.journal.wait(name, "begin")

    with site.postgres.locked(*site.postgres.task_tables()):
        site.journal.open_gate(name)
        wait_for(site.postgres.terminate_blocked, "the call of the turn to wait for PostgreSQL")

    ended = caller.reaches(task_id)
    assert ended["state"] == "succeeded", ended
    assert len(site.journal.read(name, "effect")) == 1
