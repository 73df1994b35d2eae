"""An attempt takes no further step once its lease is over, whatever it was waiting for meanwhile."""

import asyncio
from collections.abc import Sequence
from uuid import uuid4

import pytest

from dragoman.infra.batching import Batcher
from dragoman.infra.db import Contended
from dragoman.kit import AttemptFenced
from dragoman.services.tasks.engine.leases import Lease, fenced

pytestmark = pytest.mark.anyio


def lease() -> Lease:
    """One that holds until it is revoked."""
    return Lease(uuid4(), uuid4(), 1)


async def test_work_whose_answer_comes_after_the_lease_does_not_see_it() -> None:
    held, answer, seen = lease(), asyncio.get_running_loop().create_future(), list[str]()

    async def work() -> None:
        seen.append(await answer)

    running = asyncio.create_task(fence(work(), held))
    await asyncio.sleep(0)
    held.until = 0.0
    answer.set_result("too late")

    with pytest.raises(AttemptFenced):
        await running
    assert seen == []


async def test_work_with_a_lease_goes_on_and_gives_what_it_gives() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0)
        except TimeoutError:
            return "done"
        return "never"

    assert await fence(work(), lease()) == "done"


async def test_a_cancellation_reaches_the_work_and_its_clean_up_may_wait() -> None:
    begun, cleaned = asyncio.Event(), list[str]()

    async def work() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("yes")

    running = asyncio.create_task(fence(work(), lease()))
    await begun.wait()
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert cleaned == ["yes"]


async def test_items_of_one_key_are_handed_on_one_after_another() -> None:
    batches, may_go = list[list[str]](), asyncio.Event()

    async def call(items: Sequence[str]) -> Sequence[str]:
        batches.append(list(items))
        await may_go.wait()
        return items

    batcher: Batcher[str, str] = Batcher(call, lanes=3, key=lambda item: item[0])
    waiting = asyncio.gather(*(batcher.put(item) for item in ("a1", "a2", "b1", "a3")))
    await asyncio.sleep(0)
    may_go.set()

    assert await waiting == ["a1", "a2", "b1", "a3"]
    assert [sorted(batch) for batch in batches] == [["a1", "b1"], ["a2"], ["a3"]]


async def fence(work: object, held: Lease) -> object:
    """The work under the lease, as a coroutine."""
    return await fenced(work, held)  # pyright: ignore[reportArgumentType]


async def test_a_batch_that_another_transaction_was_in_the_way_of_is_written_item_by_item() -> None:
    calls = list[list[int]]()

    async def write(items: Sequence[int]) -> Sequence[int]:
        calls.append(list(items))
        if 3 in items:
            raise Contended
        return items

    batcher: Batcher[int, int] = Batcher(write, lanes=1)
    done = await asyncio.gather(*(batcher.put(number) for number in range(5)), return_exceptions=True)

    assert [number for number in done if isinstance(number, int)] == [0, 1, 2, 4]
    assert isinstance(done[3], Contended)
    assert calls == [[0, 1, 2, 3, 4], [0], [1], [2], [3], [4]]
