"""A turn may run twice, an effect in it may not: turns have the ledger of effects, too."""

from uuid import uuid4

import pytest

from tests.chaos.callers import Caller, message
from tests.chaos.installation import Installation
from tests.harness import wait_for


@pytest.mark.req("ORC-IDM-1")
@pytest.mark.parametrize("fault", ["paused", "killed"])
def test_an_effect_of_a_turn_happens_once_when_the_turn_is_taken_over_before_it(site: Installation, fault: str) -> None:
    name = f"once-{uuid4().hex[:8]}"
    task_id = site.caller("s1").say({"name": name, "act": "ledger"})
    first = site.journal.wait(name, "begin")[0]
    holder, other = site.nodes[first.node], site.caller_beside(first.node)

    (holder.pause if fault == "paused" else holder.kill)()
    second = site.journal.wait(name, "begin", times=2)[1]
    site.journal.open_gate(name)
    ended = other.reaches(task_id)
    site.heal()

    if fault == "paused":
        wait_for(lambda: [one for one in site.journal.read(name, "stopped", "end") if one.run == first.run], "its end")
    assert ended["state"] == "succeeded"
    assert [one.run for one in site.journal.read(name, "effect")] == [second.run]


@pytest.mark.req("ORC-IDM-1")
def test_an_effect_that_was_written_down_is_not_done_again_by_the_next_run(site: Installation) -> None:
    name = f"known-{uuid4().hex[:8]}"
    task_id = site.caller("s1").say({"name": name, "act": "ledger", "stay": True})
    first = site.journal.wait(name, "acted")[0]
    other = site.caller_beside(first.node)

    site.nodes[first.node].kill()
    site.journal.wait(name, "begin", times=2)
    site.journal.open_gate(f"{name}-stay")

    assert other.reaches(task_id)["state"] == "succeeded"
    assert [one.run for one in site.journal.read(name, "effect")] == [first.run]


@pytest.mark.req("ORC-IDM-1")
def test_a_person_is_asked_about_an_effect_of_a_turn_that_nobody_knows_the_outcome_of(site: Installation) -> None:
    name = f"asked-{uuid4().hex[:8]}"
    caller = site.caller("s1")
    task_id = caller.say({"name": name, "act": "ledger", "hold": True})
    first = site.journal.wait(name, "effect")[0]
    other = site.caller_beside(first.node)

    site.nodes[first.node].kill()
    other.reaches(task_id, "input_required")
    _say_that_it_was_done(other, task_id)

    assert other.reaches(task_id)["state"] == "succeeded"
    assert [one.run for one in site.journal.read(name, "effect")] == [first.run]


def _say_that_it_was_done(caller: Caller, task_id: str) -> None:
    told = {"effect": {"step": "act", "done": True, "outcome": {"told": "by hand"}}}
    answer = caller.a2a("SendMessage", message({"data": told}, at_once=True, taskId=task_id))
    assert "result" in answer.json(), answer.text
