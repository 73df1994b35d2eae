"""Builds the application: reads top to bottom as the list of what there is."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol
from uuid import UUID

import structlog

from dragoman import __version__
from dragoman.addresses import BINDINGS
from dragoman.app.approvals import ApprovalCore, build_approvals
from dragoman.app.contracts import build_contracts
from dragoman.app.delegation import build_delegation
from dragoman.app.engine import build_engine
from dragoman.app.governance import bind_governance
from dragoman.app.knowledge import KnowledgeCore, build_knowledge
from dragoman.app.mcp import build_mcp, tell_of_changes
from dragoman.app.memory import MemoryCore, bind_promotion, build_memory
from dragoman.app.push import PushCore, build_push
from dragoman.app.sessions import Ecosystem, SessionContexts
from dragoman.app.signatures import SignatureCore
from dragoman.app.tasks import TaskCore, build_tasks
from dragoman.app.tools import GateTools
from dragoman.app.workers import build_workers
from dragoman.doors.a2a.calls import Calls
from dragoman.doors.a2a.card import CARD_PATH, REST_PATH, RPC_PATHS, Cards
from dragoman.doors.a2a.door import A2ADoor
from dragoman.doors.a2a.old_card import OLD_CARD_PATH
from dragoman.doors.a2a.paths import OLD_PATHS as A2A_OLD_PATHS
from dragoman.doors.a2a.paths import PATHS as A2A_PATHS
from dragoman.doors.a2a.seed_paths import SEED_PREFIX
from dragoman.doors.a2a.signing import CardSigner
from dragoman.doors.mcp.door import MCP_PATH, McpDoor
from dragoman.doors.mcp.metadata import METADATA_PATHS
from dragoman.doors.mcp.paths import PATHS as MCP_PATHS
from dragoman.doors.rest.openapi import build_openapi
from dragoman.doors.rest.routes import RestDoor
from dragoman.doors.rest.site import SITE_PATHS, Shown, Site
from dragoman.doors.webhooks.door import PREFIX as WEBHOOK_PREFIX
from dragoman.doors.webhooks.door import WebhookDoor
from dragoman.doors.webhooks.paths import PATHS as WEBHOOK_PATHS
from dragoman.errors import DragomanError
from dragoman.gate import Gate, Guards, Observers
from dragoman.infra.auth.authenticator import Authenticator
from dragoman.infra.auth.authority import Authority
from dragoman.infra.auth.jwks import Jwks
from dragoman.infra.auth.keyring import Keyring
from dragoman.infra.auth.tokens import EMBEDDED_ISSUER, Issuer, TokenVerifier
from dragoman.infra.auth.vault import Vault
from dragoman.infra.breaker import Breakers
from dragoman.infra.config import Settings
from dragoman.infra.db import CORE_ROLE, Database, IdempotencyKeys, Scope
from dragoman.infra.edge import AsgiApp, AsgiScope, Cors, Edge, EdgeRules, Receive, Send
from dragoman.infra.embeddings import Meanings
from dragoman.infra.ids import new_id
from dragoman.infra.jobs import Job, JobGroup
from dragoman.infra.limits import Admission, Limiter, Quotas, Revocation
from dragoman.infra.telemetry import Degraded, Health, Metrics, SecurityEvents, Tracer, open_tracer
from dragoman.operations import Handlers
from dragoman.services.approvals.worker import GovernanceWorker
from dragoman.services.audit import operations as audit_operations
from dragoman.services.audit.sealer import Sealer
from dragoman.services.audit.service import AuditService
from dragoman.services.audit.store import AuditStore, SealStore
from dragoman.services.audit.trail import AuditTrail
from dragoman.services.tenancy import operations as tenancy
from dragoman.services.tenancy.keys import KeyService
from dragoman.services.tenancy.revocations import Revocations
from dragoman.services.tenancy.store import Directory, TenancyStore
from dragoman.services.tenancy.tenants import TenantService
from dragoman.services.tenancy.users import UserService
from dragoman.services.workers.profile import PROFILE_PATH

_LOG = structlog.get_logger(__name__)
PROBE_PATHS = frozenset({"/health", "/ready", "/metrics"})
OPEN_PATHS = METADATA_PATHS | {
    "/",
    "/docs",
    "/openapi.json",
    "/openapi-3.0.json",
    "/.well-known/jwks.json",
    CARD_PATH,
    OLD_CARD_PATH,
    PROFILE_PATH,
}
OPEN_PREFIXES = ("/docs/", WEBHOOK_PREFIX)
CARRIED_PATHS = A2A_PATHS | A2A_OLD_PATHS | MCP_PATHS | WEBHOOK_PATHS
_A2A = (*RPC_PATHS, CARD_PATH, OLD_CARD_PATH)
_A2A_PREFIXES = (f"{REST_PATH}/", SEED_PREFIX)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the servers are that this process needs."""

    database_url: str
    redis_url: str


class RevocationCopies:
    """Between what PostgreSQL keeps and what Valkey spreads."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self.limiter: Limiter | None = None

    async def load(self) -> Sequence[Revocation]:
        """Everything that is refused now."""
        found = await self._directory.list_revocations()
        return [Revocation(str(tenant), ref, not_before, until) for tenant, ref, not_before, until in found]

    async def revoke(self, tenant: UUID, ref: str, *, not_before: float) -> None:
        """Make it known."""
        if self.limiter is not None:
            await self.limiter.revoke(Revocation(str(tenant), ref, not_before))

    async def readmit(self, tenant: UUID, ref: str, *, not_before: float) -> None:
        """Make it known."""
        if self.limiter is not None:
            await self.limiter.readmit(Revocation(str(tenant), ref, not_before))

    async def unrevoke(self, tenant: UUID, ref: str) -> None:
        """Make it known."""
        if self.limiter is not None:
            await self.limiter.unrevoke(str(tenant), ref)


@dataclass(slots=True)
class Application:
    """What serves requests: an ASGI app for each protocol, and what has to be started before and stopped after."""

    asgi: AsgiApp
    grpc: AsgiApp | None
    db: Database
    core_db: Database
    limiter: Limiter
    sealer: Sealer
    health: Health
    tracer: Tracer
    tasks: TaskCore
    push: PushCore
    mcp: McpDoor
    memory: MemoryCore
    knowledge: KnowledgeCore
    approvals: ApprovalCore
    signatures: SignatureCore
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
            _started(self.limiter, self.limiter.job),
            self.sealer.running(),
            self.memory.running(),
            self.knowledge.running(),
            _started(self.tasks, self.approvals.sweep.job, *self.tasks.jobs()),
            self.mcp.running(),
            self.push.running(),
            self.signatures.running(),
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

    def __init__(self, *, rest: AsgiApp, a2a: AsgiApp, mcp: AsgiApp, webhooks: AsgiApp, site: AsgiApp) -> None:
        self._rest = rest
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
        elif path in _A2A or path.startswith(_A2A_PREFIXES):
            await self._a2a(scope, receive, send)
        elif path == MCP_PATH or path in METADATA_PATHS:
            await self._mcp(scope, receive, send)
        else:
            await self._site(scope, receive, send)


def build(settings: Settings, addresses: Addresses, keyring: Keyring, *, grpc_port: int | None = None) -> Application:
    """Put everything together; nothing is connected yet. Without a port there is no gRPC."""
    observers = _observers(settings, metrics := Metrics())
    breakers = Breakers(metrics=metrics)
    db = Database(addresses.database_url, size=settings.database_pool)
    # As many as batches can be under way at once: a beat that waited behind them all would come too late.
    core_db = Database(addresses.database_url, role=CORE_ROLE, size=12, by_index=True, lock_s=5)

    copies, limiter = _limiter(settings, addresses, Directory(db))
    admission = Admission(limiter, _quotas(settings), metrics=metrics, security=observers.security)
    issuer = None if settings.external_issuer else make_issuer(settings, keyring)
    authenticator = _authenticator(settings, issuer, Directory(db), keyring.pepper, breakers)

    handlers = Handlers()
    sealer, trail, core_trail = _bind_audit(settings, handlers, db, core_db, keyring)
    memory = build_memory(settings, handlers, db, core_db)
    authority = Authority.open(settings.policy_dir)
    knowledge = build_knowledge(settings, handlers, db, core_db, memory.embedder, authority)
    _bind_tenancy(handlers, db, copies, keyring, issuer, deleted=knowledge.leftovers.wake)
    governance = bind_governance(handlers, db, knowledge.repositories)
    approvals = build_approvals(handlers, (db, core_db), core_trail, governance, knowledge.authors, authority.version)
    contracts = build_contracts(settings, handlers, db, core_db, keyring)
    vault = Vault(keyring.vault)
    gate = _gate(handlers, (db, core_db), admission, authority, trail, observers)
    workers = build_workers(settings, handlers, db, vault, (*contracts.workers, GovernanceWorker(gate)), grpc_port)
    deciders = approvals.deciders(workers.registry, contracts.resources)
    engine = build_engine(settings, core_db, addresses.database_url, core_trail, metrics.tasks)
    delegation = build_delegation(handlers, (db, core_db), engine, core_trail, deciders)
    approvals.join(delegation.control.approval_decided, knowledge.curator)
    bind_promotion(handlers, memory, governance.policies, gate, by_use=settings.memory.auto_promote)
    tools = GateTools(gate, handlers)
    ecosystem = Ecosystem(SessionContexts(gate, handlers, authority.permits), tools)
    tasks = build_tasks(settings, (db, core_db), engine, tools, ecosystem, gate)
    tell_of_changes(handlers, db, tasks.hub)
    push = build_push(settings, db, core_db, tasks, vault, metrics.push)
    calls = _a2a_calls(settings, gate, tasks, push, tools, authority, CardSigner(keyring.card), grpc_port)
    health = Health(version=__version__, metrics=metrics, breakers=breakers.states)
    keys = [*(issuer.jwks()["keys"] if issuer else ()), calls.cards.signer.public_key()]
    site = Site(health, metrics, Shown(keys, _openapi, workers.profile.profile), ready=lambda: application.ready)
    guard = _guard(authenticator, admission, observers, stopping := asyncio.Event())
    mcp = build_mcp(settings, gate, tasks, tools, authority, keyring, ecosystem, limiter)
    webhooks = WebhookDoor(contracts.signatures.receivers, observers.security)
    doors = Doors(rest=RestDoor(gate, BINDINGS), a2a=A2ADoor(calls), mcp=mcp, webhooks=webhooks, site=site)
    application = Application(
        asgi=guard(doors, replace(_edge_rules(settings), resources={MCP_PATH: mcp.resource})),
        grpc=_grpc_edge(settings, calls, guard) if grpc_port else None,
        db=db,
        core_db=core_db,
        limiter=limiter,
        sealer=sealer,
        health=health,
        tracer=observers.tracer,
        tasks=tasks,
        push=push,
        mcp=mcp,
        memory=memory,
        knowledge=knowledge,
        approvals=approvals,
        signatures=contracts.signatures,
        jobs=JobGroup(metrics.jobs),
        stopping=stopping,
    )
    return _with_checks(application)


def _observers(settings: Settings, metrics: Metrics) -> Observers:
    tracer = open_tracer(settings.otlp_endpoint or "", version=__version__)
    return Observers(metrics, SecurityEvents(metrics), tracer)


def _gate(
    handlers: Handlers,
    dbs: tuple[Database, Database],
    admission: Admission,
    authority: Authority,
    trail: AuditTrail,
    observers: Observers,
) -> Gate:
    db, core_db = dbs
    keys, core_keys = IdempotencyKeys(db), IdempotencyKeys(core_db, scope=lambda _: Scope())
    guards = Guards(admission=admission, authority=authority, keys=keys, core_keys=core_keys, trail=trail)
    return Gate(handlers, guards, observers, db, core_db=core_db)


def _openapi() -> dict[str, Any]:
    return build_openapi(BINDINGS, version=__version__, site=SITE_PATHS, carried=CARRIED_PATHS)


def _limiter(settings: Settings, addresses: Addresses, directory: Directory) -> tuple[RevocationCopies, Limiter]:
    copies = RevocationCopies(directory)
    copies.limiter = Limiter(
        addresses.redis_url,
        revocations=copies,
        timeout_s=settings.limits.valkey_timeout_s,
        share=settings.workers,
    )
    return copies, copies.limiter


def _trail(db: Database, keyring: Keyring, sealer: Sealer) -> AuditTrail:
    return AuditTrail(AuditStore(db), db, mac_key=keyring.audit_mac, new_id=new_id, wake=sealer.wake)


def _guard(
    authenticator: Authenticator, admission: Admission, observers: Observers, stopping: asyncio.Event
) -> Callable[[AsgiApp, EdgeRules], Edge]:
    return partial(
        Edge,
        authenticator=authenticator,
        admission=admission,
        metrics=observers.metrics,
        security=observers.security,
        tracer=observers.tracer,
        stopping=stopping,
    )


def _authenticator(
    settings: Settings, issuer: Issuer | None, directory: Directory, pepper: bytes, breakers: Breakers
) -> Authenticator:
    keys = issuer or Jwks(url=settings.jwks_url, issuer=settings.issuer, breakers=breakers)
    return Authenticator(
        tokens=TokenVerifier(keys, issuer=EMBEDDED_ISSUER if issuer else settings.issuer, audience=settings.audience),
        directory=directory,
        pepper=pepper,
        tenant_claim="tenant" if issuer else settings.claims_tenant,
        roles_claim="roles" if issuer else settings.claims_roles,
    )


def _a2a_calls(
    settings: Settings,
    gate: Gate,
    tasks: TaskCore,
    push: PushCore,
    tools: GateTools,
    authority: Authority,
    signer: CardSigner,
    grpc_port: int | None,
) -> Calls:
    cards = Cards(
        tools,
        tasks.agent,
        version=__version__,
        may=authority.permits,
        signer=signer,
        grpc_port=grpc_port,
    )
    return Calls(
        gate,
        tasks.service,
        push.service,
        find_operation=tools.find,
        cards=cards,
        longest_wait_s=settings.longest_wait_s,
    )


def _grpc_edge(settings: Settings, calls: Calls, guard: Callable[[AsgiApp, EdgeRules], Edge]) -> Edge:
    # Nothing is open here: the card and the probes are asked for over HTTP.
    rules = replace(
        _edge_rules(settings),
        open_paths=frozenset[str](),
        open_prefixes=(),
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


def make_issuer(settings: Settings, keyring: Keyring) -> Issuer:
    """The embedded issuer; the command line makes tokens with it too."""
    return Issuer(keyring.issuer, audience=settings.audience, ttl_s=settings.token_ttl_s)


def _bind_tenancy(
    handlers: Handlers,
    db: Database,
    copies: RevocationCopies,
    keyring: Keyring,
    issuer: Issuer | None,
    *,
    deleted: Callable[[], None],
) -> None:
    store = TenancyStore(db)
    revocations = Revocations(store, db, copies)
    tenants = TenantService(store, revocations, db, new_id=new_id, deleted=deleted)
    users = UserService(store, revocations, pepper=keyring.pepper, issuer=issuer, new_id=new_id)
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


def _bind_audit(
    settings: Settings, handlers: Handlers, db: Database, core_db: Database, keyring: Keyring
) -> tuple[Sealer, AuditTrail, AuditTrail]:
    heads_file = settings.data_dir / "audit" / "heads.jsonl"
    sealer = Sealer(SealStore(core_db), key=keyring.audit, heads_file=heads_file, mac_key=keyring.audit_mac)
    audit = AuditService(
        AuditStore(db), public_key=keyring.audit.public_key(), mac_key=keyring.audit_mac, heads_file=heads_file
    )
    handlers.add(audit_operations.LIST_RECORDS, audit.list_records)
    handlers.add(audit_operations.VERIFY_TRAIL, audit.verify)
    handlers.add(audit_operations.EXPORT_TRAIL, audit.export)
    return sealer, _trail(db, keyring, sealer), _trail(core_db, keyring, sealer)


def _quotas(settings: Settings) -> Quotas:
    limits = settings.limits
    return Quotas(
        ip=limits.ip_per_min,
        user=limits.user_per_min,
        tenant=limits.tenant_per_min,
        a2a_tenant=limits.a2a_tenant_per_min,
        skills=limits.skill_per_min,
        poll_factor=limits.poll_factor,
        plan_factors={"free": limits.free_factor, "standard": 1, "enterprise": limits.enterprise_factor},
    )


def _edge_rules(settings: Settings) -> EdgeRules:
    return EdgeRules(
        max_body_bytes=settings.max_body_bytes,
        timeout_s=settings.request_timeout_s,
        cors=Cors(frozenset(settings.cors_origins)),
        open_paths=OPEN_PATHS,
        open_prefixes=OPEN_PREFIXES,
        probe_paths=PROBE_PATHS,
        tls=bool(settings.tls_cert) or settings.behind_tls_proxy,
    )


def _with_checks(application: Application) -> Application:
    async def postgresql() -> None:
        await application.db.ping()

    async def valkey() -> None:
        await application.limiter.ping()

    async def audit() -> None:
        lag_s = await application.sealer.measure()
        if lag_s > 5:
            raise Degraded(f"sealing is {lag_s:.0f} s behind")

    async def git() -> None:
        if (wrong := await asyncio.to_thread(application.knowledge.repositories.check)) is not None:
            raise Degraded(wrong)

    async def jobs() -> str | None:
        # A job that failed at the last moment is being tried again; the words are safe to show anyone.
        failing = [job for job in application.jobs.states() if job.status != "running"]
        if failing:
            raise Degraded("; ".join(f"{job.name} {job.status}: {job.reason or 'unknown'}" for job in failing))

    application.health.register("postgresql", postgresql, critical=True)
    application.health.register("valkey", valkey, critical=False)
    application.health.register("audit", audit, critical=False)
    application.health.register("git", git, critical=False)
    application.health.register("jobs", jobs, critical=False)
    application.health.register("memory", _meaning_of(application.memory.meanings), critical=False)
    application.health.register("knowledge", _meaning_of(application.knowledge.meanings), critical=False)
    return application


def _meaning_of(meanings: Meanings) -> Callable[[], Awaitable[str | None]]:
    """Degraded when there should be meaning, and there is not, or it is far behind."""

    async def check() -> str | None:
        told, well = await meanings.check()
        if not well:
            raise Degraded(told)
        return told or None

    return check
