"""Puts knowledge together: the repositories, their index, who asks and who changes."""

from dragoman.infra.auth.authority import Authority
from dragoman.infra.config import Settings
from dragoman.infra.db import Database
from dragoman.infra.outbound import Allowed, Guard
from dragoman.operations import Handlers
from dragoman.services.knowledge import operations
from dragoman.services.knowledge.curation import Curator
from dragoman.services.knowledge.index import KnowledgeIndex
from dragoman.services.knowledge.repositories import Repositories
from dragoman.services.knowledge.service import KnowledgeService
from dragoman.services.knowledge.store import KnowledgeStore
from dragoman.services.knowledge.sync import RemoteRules, Syncer


def bind_knowledge(handlers: Handlers, settings: Settings, db: Database, authority: Authority) -> Repositories:
    """Bind the operations of knowledge; the repositories is where the repositories are."""
    repositories = Repositories(settings.knowledge_dir)
    store = KnowledgeStore(db)
    index = KnowledgeIndex(store, db, repositories)
    knowledge, curator = KnowledgeService(store, index, repositories), Curator(store, index, repositories)
    handlers.add(operations.QUERY, knowledge.query)
    handlers.add(operations.SHOW, knowledge.show)
    handlers.add(operations.CHECK, knowledge.check)
    handlers.add(operations.HISTORY, knowledge.history)
    handlers.add(operations.DIFF, knowledge.diff)
    handlers.add(operations.STATUS, knowledge.status)
    handlers.add(operations.PROPOSE, curator.propose)
    handlers.add(operations.ACCEPT_ITEM, curator.accept)
    handlers.add(operations.REJECT_ITEM, curator.reject)
    handlers.add(operations.DEPRECATE_ITEM, curator.deprecate)
    handlers.add(operations.SUPERSEDE_ITEM, curator.supersede)
    rules = RemoteRules(
        Guard(Allowed.of(settings.outbound.allow)).check,
        allow_files=settings.knowledge.allow_file_remotes,
        most_bytes=settings.knowledge.max_fetch_bytes,
    )
    syncer = Syncer(
        store,
        index,
        repositories,
        db,
        rules,
        may_connect=lambda caller: authority.refusal(caller, operations.ACCEPT_ITEM) is None,
    )
    handlers.add(operations.SYNC, syncer.sync)
    return repositories
