"""How often memories were of use: counted in this process, written down now and then, never in the way of a search."""

from collections import Counter
from collections.abc import Callable, Sequence
from uuid import UUID

from dragoman.infra.jobs import Job
from dragoman.services.memory.store_index import IndexStore, Used

_EVERY_S = 2.0
# A count that is lost with its process only delays a promotion.
_MOST = 50_000


class UseCounts:
    """Counts answers, and writes the counts down."""

    def __init__(self, store: IndexStore, *, every_s: float = _EVERY_S) -> None:
        self._store = store
        # Told of each memory that was of use, once that is written down.
        self.told: Callable[[Used], None] | None = None
        self._every_s = every_s
        self._counts: Counter[tuple[UUID, UUID]] = Counter()

    def count(self, tenant: UUID, ids: Sequence[UUID]) -> None:
        """These were given as an answer."""
        if len(self._counts) < _MOST:
            self._counts.update((tenant, memory_id) for memory_id in ids)

    @property
    def job(self) -> Job:
        """Return the job that writes the counts down every few seconds."""
        return Job(name="memory_use_counts", work=self.flush, every_s=self._every_s)

    async def flush(self) -> None:
        """Write down what was counted until now."""
        counts, self._counts = self._counts, Counter()
        if counts:
            used = await self._store.add_uses([(*key, number) for key, number in counts.items()])
            if (told := self.told) is not None:
                for memory in used:
                    told(memory)
