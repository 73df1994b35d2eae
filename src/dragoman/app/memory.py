"""Puts memory together: the service, the search, and what keeps vectors and counts up behind them."""

import asyncio
from dataclasses import dataclass, field

from dragoman.infra.config import Settings
from dragoman.infra.db import Database
from dragoman.infra.embeddings import Embedder, Meanings, choose_embedder
from dragoman.infra.ids import new_id
from dragoman.infra.telemetry import Degraded
from dragoman.operations import Handlers
from dragoman.services.memory import operations as memory
from dragoman.services.memory.search import MemorySearch
from dragoman.services.memory.service import MemoryService
from dragoman.services.memory.store import MemoryStore
from dragoman.services.memory.store_index import IndexStore, Pending
from dragoman.services.memory.transfer import MemoryTransfer
from dragoman.services.memory.uses import UseCounts


@dataclass(slots=True)
class MemoryCore:
    """The memory of this process: to be started after the database, and stopped before it.

    The embedder, or the reason why there is none, is for whoever else looks at meaning; they stop before memory does.
    """

    embedder: tuple[Embedder | None, str]
    meanings: Meanings[Pending]
    uses: UseCounts
    jobs: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    async def start(self) -> None:
        """See what there is, then work behind the requests."""
        await self.meanings.start()
        self.jobs = [asyncio.create_task(self.meanings.run()), asyncio.create_task(self.uses.run())]

    async def stop(self) -> None:
        """Leave what is unfinished in its queue."""
        for job in self.jobs:
            job.cancel()
        await asyncio.gather(*self.jobs, return_exceptions=True)
        await self.uses.flush()
        if (embedder := self.embedder[0]) is not None:
            await embedder.stop()

    async def check(self) -> str | None:
        """For /health.

        Raises:
            Degraded: there should be meaning, and there is not, or it is far behind.
        """
        told, well = await self.meanings.check()
        if not well:
            raise Degraded(told)
        return told or None


def build_memory(settings: Settings, handlers: Handlers, db: Database, core_db: Database) -> MemoryCore:
    """Bind the operations of memory."""
    store, index = MemoryStore(db), IndexStore(core_db)
    embedder = choose_embedder(settings)
    meanings, uses = Meanings(index, *embedder), UseCounts(index)
    search = MemorySearch(store, meanings, uses, decay_per_day=settings.memory.decay_per_day)
    service = MemoryService(store, search, db, new_id=new_id, wake=meanings.wake, has_vectors=lambda: meanings.stored)
    transfer = MemoryTransfer(service, store)
    handlers.add(memory.ADD, service.add)
    handlers.add(memory.ADD_MANY, service.add_many)
    handlers.add(memory.SEARCH, search.search)
    handlers.add(memory.GET, service.get)
    handlers.add(memory.LIST, service.list)
    handlers.add(memory.HISTORY, service.history)
    handlers.add(memory.UPDATE, service.update, prepare=service.identify)
    handlers.add(memory.DELETE, service.delete)
    handlers.add(memory.PROMOTE, service.promote)
    handlers.add(memory.EXPORT, transfer.export)
    handlers.add(memory.IMPORT, transfer.import_)
    return MemoryCore(embedder, meanings, uses)
