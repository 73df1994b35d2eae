"""Puts the registry of workers together: those of the server, those of tenants, and what each may do."""

from collections.abc import Sequence

from dragoman.infra.auth.vault import Vault
from dragoman.infra.config import Settings
from dragoman.infra.db import Database
from dragoman.infra.ids import new_id
from dragoman.infra.outbound import Allowed, Guard
from dragoman.operations import Handlers
from dragoman.services.delegation import operations_workers as operations
from dragoman.services.delegation.allowances import Allowances
from dragoman.services.delegation.registry import CapabilityRegistry
from dragoman.services.delegation.remote import RemoteWorkers
from dragoman.services.delegation.roster import WorkerRoster
from dragoman.services.delegation.store_workers import WorkerStore
from dragoman.services.delegation.workers import Worker


def build_registry(
    settings: Settings,
    handlers: Handlers,
    db: Database,
    vault: Vault,
    built_in: Sequence[Worker],
) -> CapabilityRegistry:
    """The registry, with its operations bound; `built_in` are the workers that are part of the server."""
    store, guard = WorkerStore(db), Guard(Allowed.of(settings.outbound.allow))
    inputs = {capability.action: capability.input for worker in built_in for capability in worker.capabilities}
    remote = RemoteWorkers(guard, vault, own_input=inputs.get)
    registry = CapabilityRegistry(store, built_in, open_remote=remote.open)
    roster = WorkerRoster(store, registry, guard=guard, vault=vault, after_commit=db.after_commit, new_id=new_id)
    allowances = Allowances(store, registry, after_commit=db.after_commit)
    handlers.add(operations.REGISTER_WORKER, roster.register, prepare=roster.check_new)
    handlers.add(operations.LIST_WORKERS, roster.list)
    handlers.add(operations.UPDATE_WORKER, roster.update, prepare=roster.check_change)
    handlers.add(operations.REMOVE_WORKER, roster.remove)
    handlers.add(operations.LIST_CAPABILITIES, allowances.list)
    handlers.add(operations.ALLOW_CAPABILITY, allowances.allow)
    handlers.add(operations.DENY_CAPABILITY, allowances.deny)
    return registry
