"""Builds the application: reads top to bottom as the list of what there is."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol

import structlog

from dragoman import __version__
from dragoman.addresses import bindings
from dragoman.app.access import build_access
from dragoman.app.approvals import ApprovalCore, build_approvals
from dragoman.app.contracts import build_contracts
from dragoman.app.delegation import build_delegation
from dragoman.app.engine import build_engine
from dragoman.app.foundation import Foundation, build_foundation, heads_file
from dragoman.app.gateway import build_gateway, build_gateway_door
from dragoman.app.governance import bind_governance
from dragoman.app.grants import build_grants
from dragoman.app.health import register_checks
from dragoman.app.inbox import InboxCore, build_inbox, build_webhook_door
from dragoman.app.knowledge import KnowledgeCore, build_knowledge
from dragoman.app.mcp import build_mcp, tell_of_changes
from dragoman.app.memory import MemoryCore, bind_promotion, build_memory
from dragoman.app.plugins import Plugged
from dragoman.app.push import PushCore, build_push
from dragoman.app.revocations import build_retention
from dragoman.app.sessions import SessionContexts
from dragoman.app.signatures import SignatureCore
from dragoman.app.subscriptions import SubscriptionCore, build_subscriptions
from dragoman.app.tasks import TaskCore, build_tasks
from dragoman.app.tools import GateTools
from dragoman.app.workers import WorkersCore, build_workers
from dragoman.blocking import Threads
from dragoman.doors.a2a.calls import Calls
from dragoman.doors.a2a.card import CARD_PATH, REST_PATH, RPC_PATHS, Cards
from dragoman.doors.a2a.door import A2ADoor
from dragoman.doors.a2a.ecosystem import A2aEcosystem
from dragoman.doors.a2a.old_card import OLD_CARD_PATH
from dragoman.doors.a2a.paths import OLD_PATHS as A2A_OLD_PATHS
from dragoman.doors.a2a.paths import PATHS as A2A_PATHS
from dragoman.doors.a2a.seed_paths import SEED_PREFIX
from dragoman.doors.a2a.signing import CardSigner
from dragoman.doors.gateway.door import PREFIX as GATEWAY_PREFIX
from dragoman.doors.gateway.door import GatewayDoor
from dragoman.doors.gateway.paths import PATHS as GATEWAY_PATHS
from dragoman.doors.mcp.door import MCP_PATH, McpDoor
from dragoman.doors.mcp.metadata import METADATA_PATHS
from dragoman.doors.mcp.paths import PATHS as MCP_PATHS
from dragoman.doors.rest.openapi import build_openapi
from dragoman.doors.rest.routes import RestDoor
from dragoman.doors.rest.site import OPEN_SITE, SITE_PATHS, Shown, Site
from dragoman.doors.webhooks.door import PREFIX as WEBHOOK_PREFIX
from dragoman.doors.webhooks.paths import PATHS as WEBHOOK_PATHS
from dragoman.errors import DragomanError
from dragoman.gate import Gate, Guards
from dragoman.infra.auth.authority import Authority
from dragoman.infra.auth.keyring import Keyring
from dragoman.infra.auth.tokens import Issuer
from dragoman.infra.config import Settings
from dragoman.infra.db import Database, IdempotencyKeys, Scope
from dragoman.infra.edge import AsgiApp, AsgiScope, Cors, Edge, EdgeRules, Receive, Send
from dragoman.infra.ids import new_id
from dragoman.infra.jobs import Job, JobGroup
from dragoman.infra.limits import Limiter
from dragoman.infra.telemetry import Health, Metrics, Scrapes, Tracer
from dragoman.operations import Handlers
from dragoman.plugin import Vertical
from dragoman.services.approvals.store import PROMISED as APPROVAL_ROWS
from dragoman.services.approvals.worker import GovernanceWorker
from dragoman.services.audit import operations as audit_operations
from dragoman.services.audit.comparison import RowComparison
from dragoman.services.audit.rows import RowGroup
from dragoman.services.audit.sealer import Sealer
from dragoman.services.audit.service import AuditService
from dragoman.services.audit.store import AuditStore
from dragoman.services.contracts.store import PROMISED as DOCUMENT_ROWS
from dragoman.services.grants.service import GrantService
from dragoman.services.grants.store import PROMISED as GRANT_ROWS
from dragoman.services.knowledge.store_git import PROMISED as KNOWLEDGE_ROWS
from dragoman.services.push.store import PROMISED as PUSH_ROWS
from dragoman.services.signatures.store import PROMISED as SIGNATURE_ROWS
from dragoman.services.subscriptions.store import PROMISED as SUBSCRIPTION_ROWS
from dragoman.services.tasks.engine.store_rows import PROMISED as TASK_ROWS
from dragoman.services.tenancy import operations as tenancy
from dragoman.services.tenancy.keys import KeyService
from dragoman.services.tenancy.retention import Retention
from dragoman.services.tenancy.revocations import Revocations
from dragoman.services.tenancy.store import TenancyStore
from dragoman.services.tenancy.tenants import TenantService
from dragoman.services.tenancy.users import UserService
from dragoman.services.workers.profile import PROFILE_PATH

_LOG = structlog.get_logger(__name__)
PROBE_PATHS = frozenset({"/health", "/ready"})
OPEN_PATHS = METADATA_PATHS | {
    *OPEN_SITE,
    "/",
    "/docs",
    "/metrics",
    "/openapi.json",
    "/openapi-3.0.json",
    "/.well-known/jwks.json",
    CARD_PATH,
    OLD_CARD_PATH,
    PROFILE_PATH,
}
OPEN_PREFIXES = ("/docs/",)
CARRIED_PATHS = A2A_PATHS | A2A_OLD_PATHS | MCP_PATHS | WEBHOOK_PATHS | GATEWAY_PATHS
_A2A = (*RPC_PATHS, CARD_PATH, OLD_CARD_PATH)
_A2A_PREFIXES = (f"{REST_PATH}/", SEED_PREFIX)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the servers are that this process needs."""

    database_url: str
    redis_url: str
    # The same database as its superuser, where it is our own: the embedded one.
    admin_url: str | None = None


@dataclass(slots=True)
class Application:
    """What serves requests: an ASGI app for each protocol, and what has to be started before and stopped after."""

    asgi: AsgiApp
    grpc: AsgiApp | None
    db: Database
    core_db: Database
    limiter: Limiter
    retention: Retention
    sealer: Sealer
    health: Health
    tracer: Tracer
    tasks: TaskCore
    told: tuple[PushCore, SubscriptionCore]
    mcp: McpDoor
    memory: MemoryCore
    knowledge: KnowledgeCore
    approvals: ApprovalCore
    signatures: SignatureCore
    inbox: InboxCore
    verticals: Sequence[Vertical]
    jobs: JobGroup
    stopping: asyncio.Event
    ready: bool = False
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def start(self) -> None:
        """Connect, then be ready. A part that cannot start stops those before it."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.to_thread, self.tracer.shutdown)
            for part in self._parts():
                self.jobs.add(*await stack.enter_async_context(part))
            self.jobs.add(Job(name="health_pulse", work=self.health.pulse, every_s=0.0))
            await stack.enter_async_context(self.jobs)
            self._stack = stack.pop_all()
        self.ready = True

    def _parts(self) -> Iterable[AbstractAsyncContextManager[Sequence[Job]]]:
        """Return the parts in the order of their start, each with its jobs; they stop in the reverse order."""
        return (
            _started(self.db),
            _started(self.core_db),
            _started(self.limiter, self.limiter.job, self.retention.job),
            self.sealer.running(),
            self.memory.running(),
            self.knowledge.running(),
            _started(self.tasks, self.approvals.sweep.job, *self.tasks.jobs()),
            self.mcp.running(),
            *(deliveries.running() for deliveries in self.told),
            self.signatures.running(),
            self.inbox.running(),
            *(vertical.running() for vertical in self.verticals),
        )

    def leave(self) -> None:
        """Begin to stop: end what would go on for as long as a client listens."""
        self.stopping.set()
        self.mcp.leave()

    async def stop(self) -> None:
        """Stop the jobs, then every part, though one before it failed to stop."""
        self.ready = False
        try:
            await self._stack.aclose()
        except DragomanError as error:
            _LOG.warning("server.stop_failed", reason=error.message)
        except Exception:  # noqa: BLE001 - an edge: the process ends, whatever a part had to say
            _LOG.exception("server.stop_failed")


class _Startable(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...


@asynccontextmanager
async def _started(part: _Startable, *jobs: Job) -> AsyncGenerator[Sequence[Job]]:
    await part.start()
    try:
        yield jobs
    finally:
        await part.stop()


class Doors:
    """Hands a request to its door by the first part of its path."""

    def __init__(
        self, *, rest: AsgiApp, a2a: AsgiApp, mcp: AsgiApp, webhooks: AsgiApp, agents: AsgiApp, site: AsgiApp
    ) -> None:
        self._rest = rest
        self._agents = agents
        self._webhooks = webhooks
        self._a2a = a2a
        self._mcp = mcp
        self._site = site

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Find the door."""
        path: str = scope["path"]
        if path.startswith(WEBHOOK_PREFIX):
            await self._webhooks(scope, receive, send)
        elif path.startswith("/api/"):
            await self._rest(scope, receive, send)
        elif path.startswith(GATEWAY_PREFIX):
            await self._agents(scope, receive, send)
        elif path in _A2A or path.startswith(_A2A_PREFIXES):
            await self._a2a(scope, receive, send)
        elif path == MCP_PATH or path in METADATA_PATHS:
            await self._mcp(scope, receive, send)
        else:
            await self._site(scope, receive, send)


def build(settings: Settings, addresses: Addresses, keyring: Keyring, *, grpc_port: int | None = None) -> Application:
    """Put everything together; nothing is connected yet. Without a port there is no gRPC."""
    base = build_foundation(settings, addresses, keyring)
    metrics, outgoing, handlers = base.observers.metrics, base.outgoing, Handlers()
    (db, core_db), (trail, core_trail) = dbs, trails = (base.db, base.core_db), (base.trail, base.core_trail)
    authority, vault = base.authority, base.vault
    memory = build_memory(settings, handlers, db, core_db, outgoing)
    plugged = Plugged(settings, handlers, dbs, trail, vault, outgoing, authority.permits)
    _bind_audit(settings, handlers, db, keyring, plugged.rows)
    knowledge = build_knowledge(settings, handlers, dbs, trail, memory.embedder, authority, vault, outgoing)
    grants = _bind_tenancy(handlers, base, keyring, deleted=knowledge.leftovers.wake)
    subscriptions = build_subscriptions(settings, handlers, base)
    governance = bind_governance(handlers, db, knowledge.repositories, knowledge.curator)
    approvals = build_approvals(handlers, dbs, trails, governance, knowledge.authors, grants, authority)
    contracts = build_contracts(settings, handlers, db, core_db, trail, keyring, outgoing)
    performers = (*contracts.workers, GovernanceWorker(gate := _gate(handlers, base)))
    inbox, beside = build_inbox(settings, handlers, base, gate, plugged.verticals), plugged.join(gate)
    workers = build_workers(settings, handlers, db, vault, outgoing, performers, [inbox.worker, *beside], grpc_port)
    deciders = approvals.deciders(workers.registry, plugged.resources(contracts.resources))
    access, streams = build_access(settings, handlers, base)
    engine = build_engine(settings, core_db, addresses.database_url, core_trail, metrics.tasks)
    delegation = build_delegation(handlers, dbs, engine, core_trail, deciders, access)
    approvals.join(delegation.control.approval_decided, knowledge.curator, knowledge.syncer)
    bind_promotion(handlers, memory, governance.policies, gate, by_use=settings.memory.auto_promote)
    contexts = SessionContexts(gate, handlers, authority.permits, max_characters=settings.session.max_characters)
    gateway, tools = build_gateway(settings, handlers, base, keyring), GateTools(gate, handlers)
    tasks = build_tasks(settings, dbs, engine, tools, gate, (access, streams), outgoing, plugged.skills)
    tell_of_changes(handlers, db, tasks.hub)
    push = build_push(settings, dbs, tasks, trails, vault, metrics.push, outgoing)
    calls = _a2a_calls(settings, gate, tasks, push, tools, (contexts, authority), CardSigner(keyring.card), grpc_port)
    health = Health(version=__version__, metrics=metrics, breakers=outgoing.breakers.report)
    site = _site(settings, base, health, calls.cards.signer, workers, lambda: application.ready)
    guard = _guard(base, stopping := asyncio.Event())
    mcp = build_mcp(settings, gate, tasks, tools, authority, keyring, contexts, base.limiter)
    webhooks = build_webhook_door(base, inbox, contracts.signatures)
    doors = _doors(gate, calls, mcp, webhooks, build_gateway_door(settings, gate, tools, base), site)
    rules = replace(_edge_rules(settings), resources={MCP_PATH: mcp.resource}, entrance=gateway.entrance)
    application = Application(
        asgi=guard(doors, rules),
        grpc=_grpc_edge(settings, calls, guard) if grpc_port else None,
        db=db,
        core_db=core_db,
        limiter=base.limiter,
        retention=build_retention(settings, core_db),
        sealer=base.sealer,
        health=health,
        tracer=base.observers.tracer,
        tasks=tasks,
        told=(push, subscriptions),
        mcp=mcp,
        memory=memory,
        knowledge=knowledge,
        approvals=approvals,
        signatures=contracts.signatures,
        inbox=inbox,
        verticals=plugged.verticals,
        jobs=JobGroup(metrics.jobs),
        stopping=stopping,
    )
    register_checks(application)
    return application


def _site(
    settings: Settings,
    base: Foundation,
    health: Health,
    signer: CardSigner,
    workers: WorkersCore,
    ready: Callable[[], bool],
) -> Site:
    shown = Shown(_public_keys(base.issuer, signer), _openapi, workers.profile.profile)
    return Site(health, _scrapes(settings, base.observers.metrics), shown, ready=ready)


def _public_keys(issuer: Issuer | None, signer: CardSigner) -> list[dict[str, Any]]:
    return [*(issuer.jwks()["keys"] if issuer else ()), signer.public_key()]


def _gate(handlers: Handlers, base: Foundation) -> Gate:
    guards = Guards(
        admission=base.admission,
        authority=base.authority,
        keys=IdempotencyKeys(base.db),
        core_keys=IdempotencyKeys(base.core_db, scope=lambda _: Scope()),
        trail=base.trail,
    )
    return Gate(handlers, guards, base.observers, base.db, core_db=base.core_db)


def _openapi() -> dict[str, Any]:
    return build_openapi(bindings(), version=__version__, site=SITE_PATHS, carried=CARRIED_PATHS)


def _scrapes(settings: Settings, metrics: Metrics) -> Scrapes:
    token = settings.metrics_token
    return Scrapes(metrics.render, token=token.get_secret_value() if token else None)


def _guard(base: Foundation, stopping: asyncio.Event) -> Callable[[AsgiApp, EdgeRules], Edge]:
    return partial(
        Edge,
        authenticator=base.authenticator,
        admission=base.admission,
        metrics=base.observers.metrics,
        security=base.observers.security,
        tracer=base.observers.tracer,
        stopping=stopping,
    )


def _a2a_calls(
    settings: Settings,
    gate: Gate,
    tasks: TaskCore,
    push: PushCore,
    tools: GateTools,
    sessions: tuple[SessionContexts, Authority],
    signer: CardSigner,
    grpc_port: int | None,
) -> Calls:
    contexts, authority = sessions
    ecosystem = A2aEcosystem(tools, contexts, authority.permits)
    cards = Cards(ecosystem, tasks.agent, version=__version__, signer=signer, grpc_port=grpc_port)
    return Calls(
        gate,
        tasks.service,
        push.service,
        find_operation=tools.find,
        cards=cards,
        ecosystem=ecosystem,
        longest_wait_s=settings.longest_wait_s,
        streams=tasks.streams,
    )


def _grpc_edge(settings: Settings, calls: Calls, guard: Callable[[AsgiApp, EdgeRules], Edge]) -> Edge:
    # Nothing is open here: the card and the probes are asked for over HTTP.
    rules = replace(
        _edge_rules(settings),
        open_paths=frozenset[str](),
        open_prefixes=(),
        unmetered_prefixes=(),
        probe_paths=frozenset[str](),
        refuse=_refuse_grpc,
        pages=False,
    )
    return guard(_GrpcWhenCalled(calls), rules)


class _GrpcWhenCalled:
    """The gRPC binding, imported with the first call: the protocol's types take 3 MB, and are an extra."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    @cached_property
    def _binding(self) -> AsgiApp:
        from dragoman.doors.a2a.grpc import GrpcBinding  # noqa: PLC0415

        return GrpcBinding(self._calls)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one call."""
        await self._binding(scope, receive, send)


def _refuse_grpc(error: DragomanError, request_id: str) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    from dragoman.doors.a2a.grpc import refuse  # noqa: PLC0415 - as above

    return refuse(error, request_id)


def _bind_tenancy(
    handlers: Handlers, base: Foundation, keyring: Keyring, *, deleted: Callable[[], None]
) -> GrantService:
    store = TenancyStore(base.db)
    revocations = Revocations(store, base.db, base.copies)
    tenants = TenantService(store, revocations, base.db, new_id=new_id, deleted=deleted)
    grants = build_grants(handlers, base.db, base.trail)
    users = UserService(
        store, revocations, pepper=keyring.pepper, issuer=base.issuer, new_id=new_id, shut_out=grants.end_of
    )
    keys = KeyService(store, revocations, pepper=keyring.pepper, new_id=new_id)
    handlers.add(tenancy.CREATE_TENANT, tenants.create)
    handlers.add(tenancy.LIST_TENANTS, tenants.list)
    handlers.add(tenancy.GET_TENANT, tenants.get)
    handlers.add(tenancy.UPDATE_TENANT, tenants.update)
    handlers.add(tenancy.SUSPEND_TENANT, tenants.suspend)
    handlers.add(tenancy.RESUME_TENANT, tenants.resume)
    handlers.add(tenancy.DELETE_TENANT, tenants.delete)
    handlers.add(tenancy.INVITE_USER, users.invite)
    handlers.add(tenancy.ACCEPT_INVITATION, users.accept)
    handlers.add(tenancy.LIST_USERS, users.list)
    handlers.add(tenancy.GET_USER, users.get)
    handlers.add(tenancy.UPDATE_USER, users.update)
    handlers.add(tenancy.DISABLE_USER, users.disable)
    handlers.add(tenancy.ENABLE_USER, users.enable)
    handlers.add(tenancy.DELETE_USER, users.delete)
    handlers.add(tenancy.REVOKE_TOKEN, users.revoke_token)
    handlers.add(tenancy.SHOW_IDENTITY, users.whoami)
    handlers.add(tenancy.CREATE_KEY, keys.create)
    handlers.add(tenancy.LIST_KEYS, keys.list)
    handlers.add(tenancy.GET_KEY, keys.get)
    handlers.add(tenancy.ROTATE_KEY, keys.rotate)
    handlers.add(tenancy.REVOKE_KEY, keys.revoke)
    return grants


def _bind_audit(
    settings: Settings, handlers: Handlers, db: Database, keyring: Keyring, plugged: Sequence[RowGroup]
) -> None:
    own = (
        TASK_ROWS,
        APPROVAL_ROWS,
        DOCUMENT_ROWS,
        SIGNATURE_ROWS,
        GRANT_ROWS,
        PUSH_ROWS,
        KNOWLEDGE_ROWS,
        SUBSCRIPTION_ROWS,
    )
    threads = Threads("audit", 4, share=1)
    audit = AuditService(
        AuditStore(db),
        RowComparison(db, (*own, *plugged), threads),
        public_key=keyring.audit.public_key(),
        mac_key=keyring.audit_mac,
        heads_file=heads_file(settings),
        threads=threads,
    )
    handlers.add(audit_operations.LIST_RECORDS, audit.list_records)
    handlers.add(audit_operations.VERIFY_TRAIL, audit.verify)
    handlers.add(audit_operations.EXPORT_TRAIL, audit.export)


def _doors(gate: Gate, calls: Calls, mcp: McpDoor, webhooks: AsgiApp, agents: GatewayDoor, site: Site) -> Doors:
    rest, a2a = RestDoor(gate, bindings()), A2ADoor(calls)
    return Doors(rest=rest, a2a=a2a, mcp=mcp, webhooks=webhooks, agents=agents, site=site)


def _edge_rules(settings: Settings) -> EdgeRules:
    return EdgeRules(
        max_body_bytes=settings.max_body_bytes,
        timeout_s=settings.request_timeout_s,
        cors=Cors(frozenset(settings.cors_origins)),
        open_paths=OPEN_PATHS,
        open_prefixes=OPEN_PREFIXES,
        probe_paths=PROBE_PATHS,
        unmetered_prefixes=(WEBHOOK_PREFIX,),
        tls=bool(settings.tls_cert) or settings.behind_tls_proxy,
    )
