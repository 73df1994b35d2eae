"""Many small writes as few large ones, so that durability costs a share of a commit."""

from collections.abc import Sequence
from uuid import UUID

from dragoman.services.tasks.grouped import Grouped
from dragoman.services.tasks.store import Birth, Change, CoreStore


class TaskWriter:
    """Adds and changes tasks, in batches."""

    def __init__(self, store: CoreStore) -> None:
        self._store = store
        self._births: Grouped[Birth, None] = Grouped(self._add)
        # One lane: two batches that change the same task would wait for each other's locks.
        self._changes: Grouped[Change, int | None] = Grouped(self._change, lanes=1)

    async def add(self, birth: Birth) -> None:
        """A new task, durable when this returns."""
        await self._births.put(birth)

    async def change(self, change: Change) -> int | None:
        """What happened to a task, durable when this returns: its last event number, None when it was fenced off."""
        return await self._changes.put(change)

    async def close(self) -> None:
        """Wait until everything is written."""
        await self._births.close()
        await self._changes.close()

    async def _add(self, births: Sequence[Birth]) -> Sequence[None]:
        await self._store.add(births)
        return [None] * len(births)

    async def _change(self, changes: Sequence[Change]) -> Sequence[int | None]:
        # One statement changes a row once: what comes for the same task in one batch goes in turns.
        results: dict[int, int | None] = {}
        left = list(enumerate(changes))
        while left:
            turn: dict[UUID, tuple[int, Change]] = {}
            for place, change in left:
                turn.setdefault(change.id, (place, change))
            left = [(place, change) for place, change in left if turn[change.id][0] != place]
            seqs = await self._store.change([change for _, change in turn.values()])
            for task_id, (place, _) in turn.items():
                results[place] = seqs.get(task_id)
        return [results[place] for place in range(len(changes))]
