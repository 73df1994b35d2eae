"""Puts knowledge together: the repositories, their index, who asks and who changes."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from dragoman.infra.auth.authority import Authority
from dragoman.infra.auth.vault import Vault
from dragoman.infra.config import Settings
from dragoman.infra.db import Database
from dragoman.infra.embeddings import Embedder, Meanings
from dragoman.infra.ids import new_id
from dragoman.infra.jobs import Job
from dragoman.infra.outbound import Clients, Upstream
from dragoman.operations import Handlers
from dragoman.services.audit.statements import Statements
from dragoman.services.audit.trail import AuditTrail
from dragoman.services.knowledge import operations
from dragoman.services.knowledge.authorship import Authorship
from dragoman.services.knowledge.connections import RemoteConnections
from dragoman.services.knowledge.curation import Curator
from dragoman.services.knowledge.index import KnowledgeIndex
from dragoman.services.knowledge.leftovers import Leftovers
from dragoman.services.knowledge.repositories import Repositories
from dragoman.services.knowledge.search import KnowledgeSearch
from dragoman.services.knowledge.service import KnowledgeService
from dragoman.services.knowledge.store import KnowledgeStore
from dragoman.services.knowledge.store_git import PROMISED, GitStore
from dragoman.services.knowledge.store_meaning import VectorStore
from dragoman.services.knowledge.store_remotes import RemoteStore
from dragoman.services.knowledge.sync import RemoteRules, Syncer
from dragoman.services.tenancy.store import TenancyStore


@dataclass(slots=True)
class KnowledgeCore:
    """The knowledge of this process: to be started after the database, and stopped before it."""

    repositories: Repositories
    authors: Authorship
    curator: Curator
    meanings: Meanings
    leftovers: Leftovers
    syncer: Syncer

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Sequence[Job]]:
        """See what there is, and give the jobs behind the requests; what is unfinished stays in its queue."""
        await self.meanings.start()
        try:
            yield [*self.meanings.jobs("knowledge_embeddings"), self.leftovers.job]
        finally:
            await self.syncer.stop()


def build_knowledge(
    settings: Settings,
    handlers: Handlers,
    dbs: tuple[Database, Database],
    trail: AuditTrail,
    embedder: tuple[Embedder | None, str],
    authority: Authority,
    vault: Vault,
    outgoing: Clients,
) -> KnowledgeCore:
    """Bind the operations of knowledge; without an embedder comes the reason."""
    db, core_db = dbs
    repositories = Repositories(settings.knowledge_dir, GitStore(db, Statements(db, trail, PROMISED)), db)
    store = KnowledgeStore(db)
    index = KnowledgeIndex(store, db, repositories)
    meanings = Meanings(VectorStore(core_db), *embedder)
    knowledge, curator = KnowledgeService(store, index, repositories), Curator(store, index, repositories)
    handlers.add(operations.QUERY, KnowledgeSearch(store, index, meanings).query)
    handlers.add(operations.SHOW, knowledge.show)
    handlers.add(operations.CHECK, knowledge.check)
    handlers.add(operations.LIST_CONSTRAINTS, knowledge.constraints)
    handlers.add(operations.HISTORY, knowledge.history)
    handlers.add(operations.DIFF, knowledge.diff)
    handlers.add(operations.STATUS, knowledge.status)
    handlers.add(operations.PROPOSE, curator.propose)
    handlers.add(operations.ACCEPT_ITEM, curator.accept)
    handlers.add(operations.REJECT_ITEM, curator.reject)
    handlers.add(operations.DEPRECATE_ITEM, curator.deprecate)
    handlers.add(operations.SUPERSEDE_ITEM, curator.supersede)
    rules = RemoteRules(
        outgoing.guard().resolve,
        outgoing.breakers,
        allow_files=settings.knowledge.allow_file_remotes,
        most_bytes=settings.knowledge.max_fetch_bytes,
        request_s=settings.request_timeout_s,
    )
    outgoing.breakers.declare(Upstream.GIT.value, of_tenants=True)
    connections = RemoteConnections(RemoteStore(db), rules, vault, new_id=new_id)
    handlers.add(operations.CONNECT, connections.connect, prepare=connections.check_new)
    handlers.add(operations.LIST_REMOTES, connections.list)
    handlers.add(operations.DISCONNECT, connections.disconnect)
    syncer = Syncer(
        store,
        index,
        repositories,
        db,
        rules,
        find_key=connections.find,
        may_connect=lambda caller: authority.permits(caller, operations.ACCEPT_ITEM),
    )
    handlers.add(operations.SYNC, syncer.sync)
    leftovers = Leftovers(repositories, TenancyStore(db).deleted_among)
    return KnowledgeCore(repositories, Authorship(repositories), curator, meanings, leftovers, syncer)
