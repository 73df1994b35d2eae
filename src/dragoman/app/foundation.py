"""What everything else stands on: databases, limits, identity, the audit trail, and the way out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dragoman import __version__
from dragoman.app.revocations import RevocationCopies
from dragoman.gate import Observers
from dragoman.infra.auth.authenticator import Authenticator, KindClaim
from dragoman.infra.auth.authority import Authority
from dragoman.infra.auth.jwks import Jwks
from dragoman.infra.auth.keyring import Keyring
from dragoman.infra.auth.tokens import EMBEDDED_ISSUER, Issuer, TokenVerifier
from dragoman.infra.auth.vault import Vault
from dragoman.infra.breaker import Breakers
from dragoman.infra.config import Settings
from dragoman.infra.db import CORE_ROLE, Database
from dragoman.infra.ids import new_id
from dragoman.infra.limits import Admission, Limiter, Quotas
from dragoman.infra.outbound import Allowed, Clients
from dragoman.infra.telemetry import Metrics, SecurityEvents, open_tracer
from dragoman.plugin import installed_plugins
from dragoman.services.audit.sealer import Sealer
from dragoman.services.audit.store import AuditStore, SealStore
from dragoman.services.audit.trail import AuditTrail
from dragoman.services.tenancy.store import Directory


class _Addresses(Protocol):
    @property
    def database_url(self) -> str: ...

    @property
    def redis_url(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Foundation:
    """The parts that all others are built on. `core_db` and `core_trail` work for all tenants."""

    observers: Observers
    outgoing: Clients
    db: Database
    core_db: Database
    copies: RevocationCopies
    limiter: Limiter
    admission: Admission
    issuer: Issuer | None
    authenticator: Authenticator
    sealer: Sealer
    trail: AuditTrail
    core_trail: AuditTrail
    authority: Authority
    vault: Vault


def build_foundation(settings: Settings, addresses: _Addresses, keyring: Keyring) -> Foundation:
    """Build it; nothing is connected yet."""
    observers = _observers(settings, metrics := Metrics())
    outgoing = Clients(Breakers(metrics=metrics), Allowed.of(settings.outbound.allow))
    db, core_db = dbs = _databases(settings, addresses.database_url)
    copies, limiter = _limiter(settings, addresses, Directory(db))
    issuer = None if settings.external_issuer else make_issuer(settings, keyring)
    sealer, (trail, core_trail) = _trails(settings, dbs, keyring)
    return Foundation(
        observers=observers,
        outgoing=outgoing,
        db=db,
        core_db=core_db,
        copies=copies,
        limiter=limiter,
        admission=Admission(limiter, _quotas(settings), metrics=metrics, security=observers.security),
        issuer=issuer,
        authenticator=_authenticator(settings, issuer, Directory(db), keyring.pepper, outgoing),
        sealer=sealer,
        trail=trail,
        core_trail=core_trail,
        authority=_authority(settings),
        vault=Vault(keyring.vault),
    )


def _databases(settings: Settings, url: str) -> tuple[Database, Database]:
    """Return the application's and the core's."""
    # The core has as many sessions as batches can be under way: a beat that waited behind them all would come too late.
    return Database(url, size=settings.database_pool), Database(url, role=CORE_ROLE, size=12, by_index=True, lock_s=5)


def _authority(settings: Settings) -> Authority:
    return Authority.open(settings.policy_dir, {plugin.name: plugin.policies for plugin in installed_plugins()})


def _observers(settings: Settings, metrics: Metrics) -> Observers:
    tracer = open_tracer(settings.otlp_endpoint or "", version=__version__)
    return Observers(metrics, SecurityEvents(metrics), tracer)


def _limiter(settings: Settings, addresses: _Addresses, directory: Directory) -> tuple[RevocationCopies, Limiter]:
    copies = RevocationCopies(directory)
    copies.limiter = Limiter(
        addresses.redis_url,
        revocations=copies,
        timeout_s=settings.limits.valkey_timeout_s,
        share=settings.workers,
    )
    return copies, copies.limiter


def heads_file(settings: Settings) -> Path:
    """Return where this server keeps the heads of the audit chains."""
    return settings.data_dir / "audit" / "heads.jsonl"


def _trails(
    settings: Settings, dbs: tuple[Database, Database], keyring: Keyring
) -> tuple[Sealer, tuple[AuditTrail, AuditTrail]]:
    db, core_db = dbs
    sealer = Sealer(SealStore(core_db), key=keyring.audit, heads_file=heads_file(settings), mac_key=keyring.audit_mac)
    return sealer, (_trail(db, keyring, sealer), _trail(core_db, keyring, sealer))


def _trail(db: Database, keyring: Keyring, sealer: Sealer) -> AuditTrail:
    return AuditTrail(AuditStore(db), db, mac_key=keyring.audit_mac, new_id=new_id, wake=sealer.wake)


def _authenticator(
    settings: Settings, issuer: Issuer | None, directory: Directory, pepper: bytes, outgoing: Clients
) -> Authenticator:
    keys = issuer or Jwks(url=settings.jwks_url, issuer=settings.issuer, outgoing=outgoing)
    return Authenticator(
        tokens=TokenVerifier(
            keys,
            issuer=EMBEDDED_ISSUER if issuer else settings.issuer,
            audience=settings.audience,
            max_age_s=settings.token_max_age_s,
        ),
        directory=directory,
        pepper=pepper,
        tenant_claim="tenant" if issuer else settings.claims_tenant,
        roles_claim="roles" if issuer else settings.claims_roles,
        kind_claim=None if issuer else KindClaim(settings.claims_kind, frozenset(settings.claims_people)),
    )


def make_issuer(settings: Settings, keyring: Keyring) -> Issuer:
    """The embedded issuer; the command line makes tokens with it too."""
    return Issuer(keyring.issuer, audience=settings.audience, ttl_s=settings.token_ttl_s)


def _quotas(settings: Settings) -> Quotas:
    limits = settings.limits
    return Quotas(
        ip=limits.ip_per_min,
        user=limits.user_per_min,
        tenant=limits.tenant_per_min,
        a2a_tenant=limits.a2a_tenant_per_min,
        agent=limits.agent_per_min,
        skills=limits.skill_per_min,
        poll_factor=limits.poll_factor,
        plan_factors={"free": limits.free_factor, "standard": 1, "enterprise": limits.enterprise_factor},
    )
