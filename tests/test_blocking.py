"""Places for work that blocks: a tenant has its share of them, and waits for itself alone."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from anyio import fail_after

from dragoman.blocking import Slots, Threads, TooManyWaiting
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.anyio


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What blocking work waits for."""
    opened = threading.Event()
    yield opened
    opened.set()


async def test_a_tenant_that_holds_its_share_keeps_no_other_from_working(gate: threading.Event) -> None:
    """Review findings 4 and 16: one tenant's syncs or redlines held every thread of the process."""
    threads = Threads("test", 4, share=2)
    greedy = [asyncio.create_task(threads.run("greedy", gate.wait, PATIENCE_S)) for _ in range(50)]
    await asyncio.sleep(0)

    with fail_after(PATIENCE_S):
        found = await threads.run("other", lambda: "done")

    assert found == "done"
    assert not any(task.done() for task in greedy)
    gate.set()
    assert set(await asyncio.gather(*greedy)) == {True}


async def test_a_call_that_was_given_up_keeps_its_place_until_its_thread_is_free(gate: threading.Event) -> None:
    """Or a caller who hangs up again and again would take the shares of all."""
    threads = Threads("test", 2, share=1)
    given_up = asyncio.create_task(threads.run("greedy", gate.wait, PATIENCE_S))
    await asyncio.sleep(0)
    given_up.cancel()
    with suppress(asyncio.CancelledError):
        await given_up
    again = asyncio.create_task(threads.run("greedy", lambda: "again"))
    await asyncio.sleep(0)

    with fail_after(PATIENCE_S):
        other = await threads.run("other", lambda: "other")
        held = not again.done()
        gate.set()
        later = await again

    assert (other, held, later) == ("other", True, "again")


async def test_those_who_wait_take_turns_by_tenant() -> None:
    slots, order = Slots(1, share=1), list[str]()

    async def work(tenant: str) -> None:
        async with slots.hold(tenant):
            order.append(tenant)
            await asyncio.sleep(0)

    await slots.acquire("first")
    waiting = [asyncio.create_task(work(tenant)) for tenant in ("a", "a", "a", "b", "c")]
    await asyncio.sleep(0)
    slots.release("first")
    await asyncio.gather(*waiting)

    assert order == ["a", "b", "c", "a", "a"]


async def test_a_tenant_may_wait_so_often_and_no_more() -> None:
    slots = Slots(2, share=1)
    await slots.acquire("greedy")
    waiting = asyncio.create_task(slots.acquire("greedy", most_waiting=1))
    await asyncio.sleep(0)

    with pytest.raises(TooManyWaiting):
        await slots.acquire("greedy", most_waiting=1)

    await slots.acquire("other", most_waiting=1)
    slots.release("greedy")
    await waiting
