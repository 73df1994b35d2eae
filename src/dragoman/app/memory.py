"""Puts memory together: the service, the search, and what keeps vectors and counts up behind them."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from dragoman.context import Caller, Role, ourselves
from dragoman.gate import Gate
from dragoman.infra.config import Settings
from dragoman.infra.db import Database
from dragoman.infra.embeddings import Embedder, Meanings, choose_embedder
from dragoman.infra.ids import new_id
from dragoman.infra.jobs import Job
from dragoman.infra.outbound import Clients, Upstream
from dragoman.operations import Grouped, Handlers
from dragoman.services.governance.library import PolicyLibrary
from dragoman.services.governance.models import CheckedContext, LayerIds
from dragoman.services.governance.objections import PolicyObjections
from dragoman.services.memory import operations as memory
from dragoman.services.memory.layers import Place
from dragoman.services.memory.models import Promotion
from dragoman.services.memory.ports import Objections
from dragoman.services.memory.promotion import AutoPromotion, Earned, Promoter
from dragoman.services.memory.search import MemorySearch
from dragoman.services.memory.service import MemoryService
from dragoman.services.memory.store import MemoryStore
from dragoman.services.memory.store_index import IndexStore
from dragoman.services.memory.transfer import MemoryTransfer
from dragoman.services.memory.uses import UseCounts


@dataclass(slots=True)
class MemoryCore:
    """The memory of this process: to be started after the database, and stopped before it.

    The embedder, or the reason why there is none, is for whoever else looks at meaning; they stop before memory does.
    """

    embedder: tuple[Embedder | None, str]
    meanings: Meanings
    uses: UseCounts
    memories: MemoryService
    store: MemoryStore
    auto: AutoPromotion | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Sequence[Job]]:
        """See what there is, and give the jobs behind the requests; what is unfinished stays in its queue."""
        async with AsyncExitStack() as stack:
            if (embedder := self.embedder[0]) is not None:
                stack.push_async_callback(embedder.stop)
            stack.push_async_callback(self.uses.flush)
            await self.meanings.start()
            promotion = [] if self.auto is None else [self.auto.job]
            yield [*self.meanings.jobs("memory_embeddings"), self.uses.job, *promotion]


def build_memory(
    settings: Settings, handlers: Handlers, db: Database, core_db: Database, outgoing: Clients
) -> MemoryCore:
    """Bind the operations of memory."""
    store, index = MemoryStore(db), IndexStore(core_db)
    embedder = choose_embedder(settings, partial(outgoing.own, Upstream.EMBEDDINGS))
    meanings, uses = Meanings(index, *embedder), UseCounts(index)
    search = MemorySearch(store, meanings, uses, decay_per_day=settings.memory.decay_per_day)
    service = MemoryService(store, search, db, new_id=new_id, wake=meanings.wake, has_vectors=lambda: meanings.stored)
    transfer = MemoryTransfer(service, store)
    handlers.add(memory.ADD, service.add, grouped=Grouped(service.plan, service.add_planned))
    handlers.add(memory.ADD_MANY, service.add_many)
    handlers.add(memory.SEARCH, search.search)
    handlers.add(memory.GET, service.get)
    handlers.add(memory.LIST, service.list)
    handlers.add(memory.HISTORY, service.history)
    handlers.add(memory.UPDATE, service.update, prepare=service.identify)
    handlers.add(memory.DELETE, service.delete)
    handlers.add(memory.EXPORT, transfer.export)
    handlers.add(memory.IMPORT, transfer.import_)
    return MemoryCore(embedder, meanings, uses, service, store)


class _PromotionPolicies:
    """Holds what is to be shared against the policies of the layer that it goes to, as a text at memory/<layer>.md."""

    def __init__(self, policies: PolicyLibrary) -> None:
        self._objections = PolicyObjections(policies)

    async def objections(self, caller: Caller, place: Place, content: str) -> Objections:
        """Against putting this text there."""
        context = CheckedContext.model_validate(
            {"action": memory.PROMOTE.tool, "path": f"memory/{place.layer.value}.md", "content": content}
        )
        # What is private has no layer in governance: what holds for the whole company holds for it.
        layer = "company" if place.layer.private else place.layer.value
        ids = LayerIds(project_id=place.ids.get("project_id"))
        revision, reasons = await self._objections.find(caller, context, layer, ids)
        return Objections(reasons, revision)


def bind_promotion(handlers: Handlers, core: MemoryCore, policies: PolicyLibrary, gate: Gate, *, by_use: bool) -> None:
    """Bind promotion, which asks the policies; by use it goes through the gate like everybody's, and is on record."""
    handlers.add(memory.PROMOTE, Promoter(core.memories, core.store, _PromotionPolicies(policies)).promote)
    if not by_use:
        return

    async def promote(earned: Earned) -> Promotion:
        caller = ourselves(earned.tenant, "auto-promotion", roles=frozenset({Role.AGENT}))
        return await gate.run(memory.PROMOTE, caller, earned.wanted)

    core.auto = AutoPromotion(promote)
    core.uses.told = core.auto.consider
