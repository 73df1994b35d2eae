"""Puts the registry of workers together: those of the server, those of tenants, and what each may do."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from dragoman.app.delegation import load_workers
from dragoman.context import RequestContext, current_request
from dragoman.doors.a2a.card import interfaces
from dragoman.doors.mcp.door import MCP_PATH
from dragoman.infra.auth.vault import Vault
from dragoman.infra.config import Settings
from dragoman.infra.db import Database
from dragoman.infra.edge import base_url
from dragoman.infra.ids import new_id
from dragoman.infra.outbound import Clients, Upstream
from dragoman.operations import Handlers
from dragoman.services.workers import operations
from dragoman.services.workers.operations_profile import SHOW_PROFILE
from dragoman.services.workers.permissions import CapabilityPermissions
from dragoman.services.workers.profile import Endpoint, ProfileService
from dragoman.services.workers.protocol import Worker
from dragoman.services.workers.registry import CapabilityRegistry
from dragoman.services.workers.remote import RemoteWorkers
from dragoman.services.workers.service import WorkerService
from dragoman.services.workers.store import WorkerStore

# More than kit takes of an answer: it says by itself that one is too large.
_LARGEST_ANSWER_BYTES: Final = 5 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class WorkersCore:
    """The registry of workers, and the public profile of this server."""

    registry: CapabilityRegistry
    profile: ProfileService


def build_workers(
    settings: Settings,
    handlers: Handlers,
    db: Database,
    vault: Vault,
    outgoing: Clients,
    own: Sequence[Worker],
    plugged: Sequence[Worker],
    grpc_port: int | None,
) -> WorkersCore:
    """Build the registry of our own workers, those in the settings and those of plugins, and bind its operations.

    The profile is that of contracts: it shows what plugins perform to nobody.
    """
    built_in = [*own, *load_workers(settings.tasks.workers)]
    performing = [*built_in, *plugged]
    store, clients = WorkerStore(db), outgoing.of_tenants(Upstream.WORKER, most_bytes=_LARGEST_ANSWER_BYTES)
    inputs = {capability.action: capability.input for worker in performing for capability in worker.capabilities}
    remote = RemoteWorkers(clients, vault, own_input=inputs.get)
    registry = CapabilityRegistry(store, performing, open_remote=remote.open)
    service = WorkerService(
        store, registry, guard=clients.guard, vault=vault, after_commit=db.after_commit, new_id=new_id
    )
    permissions = CapabilityPermissions(store, registry, after_commit=db.after_commit)
    handlers.add(operations.REGISTER_WORKER, service.register, prepare=service.check_new)
    handlers.add(operations.LIST_WORKERS, service.list)
    handlers.add(operations.UPDATE_WORKER, service.update, prepare=service.check_change)
    handlers.add(operations.REMOVE_WORKER, service.remove)
    handlers.add(operations.LIST_CAPABILITIES, permissions.list)
    handlers.add(operations.ALLOW_CAPABILITY, permissions.allow)
    handlers.add(operations.DENY_CAPABILITY, permissions.deny)
    profile = ProfileService(
        built_in, endpoints=partial(_endpoints, grpc_port), here=lambda: _found_at(settings, current_request())
    )
    handlers.add(SHOW_PROFILE, profile.show)
    return WorkersCore(registry, profile)


def _endpoints(grpc_port: int | None, base_url: str) -> list[Endpoint]:
    a2a = [
        Endpoint(protocol="a2a", binding=one["protocolBinding"], version=one["protocolVersion"], url=one["url"])
        for one in interfaces(base_url, grpc_port)
    ]
    mcp = Endpoint(protocol="mcp", binding="streamable-http", url=f"{base_url}{MCP_PATH}")
    return [*a2a, mcp, Endpoint(protocol="rest", binding="HTTP+JSON", url=f"{base_url}/api")]


def _found_at(settings: Settings, request: RequestContext | None) -> str:
    tls = settings.tls_cert or settings.behind_tls_proxy
    listens = {"scheme": "https" if tls else "http", "server": (settings.host, settings.port)}
    return base_url(listens, request.headers if request else {})
