"""A turn never runs in two processes at once, whatever happens to the process that has it."""

from collections.abc import Callable
from uuid import uuid4

import pytest

from tests.chaos.installation import Installation
from tests.chaos.journal import overlaps
from tests.chaos.nodes import Node
from tests.chaos.partition import Link
from tests.harness import wait_for

Fault = Callable[[Node], object]
# A process that is stopped cannot stop its work: it must find out before it acts again.
FAULTS: dict[str, tuple[Fault, str]] = {
    "half-open": (lambda node: node.link(Link.HALF_OPEN), "tick"),
    "cut": (lambda node: node.link(Link.CUT), "tick"),
    "paused": (lambda node: node.pause(), "none"),
    "killed": (lambda node: node.kill(), "tick"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_turn_is_taken_over_only_after_its_process_has_stopped_it(site: Installation, fault: str) -> None:
    strike, beat = FAULTS[fault]
    name = f"turn-{uuid4().hex[:8]}"
    work = {"name": name, "beat": beat, "fence": "progress"}
    task_id = site.caller("s1").say(work)
    first = site.journal.wait(name, "begin")[0]
    holder, other = site.nodes[first.node], site.caller_beside(first.node)

    strike(holder)
    second = site.journal.wait(name, "begin", times=2)[1]
    site.journal.open_gate(name)
    ended = other.reaches(task_id)
    site.heal()

    if fault != "killed":
        wait_for(lambda: [one for one in site.journal.read(name, "stopped", "end") if one.run == first.run], "its end")
    assert second.node != first.node
    assert overlaps(site.journal.read(name)) == []
    assert [one.run for one in site.journal.read(name, "effect")] == [second.run]
    assert ended["state"] == "succeeded"


@pytest.mark.parametrize("fence", ["progress", "state"])
def test_the_next_call_of_an_attempt_that_has_lost_its_task_raises(site: Installation, fence: str) -> None:
    name = f"fenced-{uuid4().hex[:8]}"
    site.caller("s1").say({"name": name, "fence": fence, "act": "plain"})
    first = site.journal.wait(name, "begin")[0]
    holder = site.nodes[first.node]

    holder.pause()
    second = site.journal.wait(name, "begin", times=2)[1]
    site.journal.open_gate(name)
    site.journal.wait(name, "end")
    holder.resume()

    wait_for(lambda: [one for one in site.journal.read(name, "stopped", "end") if one.run == first.run], "its end")
    assert [one.run for one in site.journal.read(name, "stopped")] == [first.run]
    assert [one.run for one in site.journal.read(name, "effect")] == [second.run]


def test_a_turn_that_asks_its_host_at_every_step_takes_none_after_it_was_taken_over(site: Installation) -> None:
    """A stopped process may find the answer to an old question in its socket: that answer is too late as well."""
    name = f"steps-{uuid4().hex[:8]}"
    task_id = site.caller("s1").say({"name": name, "beat": "step", "fence": "progress"})
    first = site.journal.wait(name, "step", times=3)[0]
    holder, other = site.nodes[first.node], site.caller_beside(first.node)

    holder.pause()
    site.journal.wait(name, "begin", times=2)
    holder.resume()
    site.journal.wait(name, "stopped")
    site.journal.open_gate(name)

    assert other.reaches(task_id)["state"] == "succeeded"
    assert overlaps(site.journal.read(name)) == []
