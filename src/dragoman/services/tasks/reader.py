"""Looking tasks up, those that are asked for in one moment together: a round trip costs more than a row."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from dragoman.infra.batching import Batcher
from dragoman.services.tasks.models import Task
from dragoman.services.tasks.store import TaskStore


class TaskReader:
    """Finds tasks as they are when they are asked for, each tenant's in a statement of its own."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store
        self._lookups: Batcher[tuple[UUID, UUID], Task | None] = Batcher(self._look_up)

    async def find(self, tenant: UUID, ref: str) -> Task | None:
        """Return a task by its id or by the alias that its caller chose."""
        try:
            task_id = UUID(ref)
        except ValueError:
            return await self._store.find(tenant, ref)
        return await self._lookups.put((tenant, task_id)) or await self._store.find(tenant, ref)

    async def _look_up(self, asked: Sequence[tuple[UUID, UUID]]) -> Sequence[Task | None]:
        places: dict[UUID, list[int]] = {}
        for place, (tenant, _) in enumerate(asked):
            places.setdefault(tenant, []).append(place)
        if len(places) == 1:  # as nearly always, and then nobody else has to be waited for
            return await self._store.find_some(asked[0][0], [task_id for _, task_id in asked])
        pages = await asyncio.gather(
            *(self._store.find_some(tenant, [asked[place][1] for place in mine]) for tenant, mine in places.items())
        )
        found: list[Task | None] = [None] * len(asked)
        for mine, page in zip(places.values(), pages, strict=True):
            for place, task in zip(mine, page, strict=True):
                found[place] = task
        return found
