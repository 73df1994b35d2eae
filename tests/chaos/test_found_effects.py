"""An effect that nobody knows the outcome of: it is looked up, or asked for, and never guessed."""

from uuid import uuid4

import pytest

from tests.chaos.callers import envelope
from tests.chaos.installation import Installation
from tests.chaos.partition import Link
from tests.harness import wait_for


@pytest.mark.req("ORC-IDM-1")
def test_nothing_found_is_not_believed_while_the_first_worker_may_still_act(site: Installation) -> None:
    """On a machine so busy that its time is over by then, it finds that it has lost the task."""
    name = f"found-{uuid4().hex[:8]}"
    task_id = site.caller("s1").submit(envelope("work.find_soon", {"name": name, "hold": "before"}))
    first = site.journal.wait(name, "performing")[0]
    holder, other = site.nodes[first.node], site.caller_beside(first.node)

    holder.pause()
    wait_for(lambda: other.task(task_id)["attempt"] > 1, "another process to take it over")
    site.journal.wait(name, "looked")
    site.journal.open_gate(name)
    holder.resume()

    assert other.reaches(task_id)["state"] == "succeeded"
    assert len(site.journal.read(name, "effect")) == 1


@pytest.mark.req("ORC-IDM-1")
def test_nothing_found_is_believed_when_the_time_of_the_first_attempt_is_over(site: Installation) -> None:
    name = f"gone-{uuid4().hex[:8]}"
    task_id = site.caller("s1").submit(envelope("work.find_soon", {"name": name, "hold": "before"}))
    first = site.journal.wait(name, "performing")[0]

    site.nodes[first.node].kill()
    site.journal.open_gate(name)

    assert site.caller_beside(first.node).reaches(task_id)["state"] == "succeeded"
    assert len(site.journal.read(name, "effect")) == 1


@pytest.mark.req("ORC-IDM-1")
def test_a_parked_task_goes_on_by_itself_when_the_cut_off_worker_writes_its_outcome(site: Installation) -> None:
    """A person is asked only about what the ledger does not know, and no longer than that."""
    name = f"parked-{uuid4().hex[:8]}"
    task_id = site.caller("s1").submit(envelope("work.park", {"name": name, "hold": "after"}))
    first = site.journal.wait(name, "effect")[0]
    holder, other = site.nodes[first.node], site.caller_beside(first.node)

    holder.link(Link.CUT)
    site.journal.open_gate(name)
    asked = other.reaches(task_id, "input_required")
    site.heal()

    assert "act" in str(asked["question"])
    ended = other.reaches(task_id)
    assert (ended["state"], ended["result"]["name"]) == ("succeeded", name)
    assert len(site.journal.read(name, "effect")) == 1
