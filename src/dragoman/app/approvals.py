"""Puts approvals together: who asks and decides, who judges by them, and what ends them by itself."""

from dataclasses import dataclass

from dragoman.app.delegation import Deciders
from dragoman.app.governance import GovernanceCore
from dragoman.infra.auth.authority import Authority
from dragoman.infra.db import Database
from dragoman.infra.ids import new_id
from dragoman.operations import Handlers
from dragoman.services.approvals import operations
from dragoman.services.approvals.changes import KnowledgeConsent
from dragoman.services.approvals.consent import Consent
from dragoman.services.approvals.judging import Judge
from dragoman.services.approvals.outcomes import Outcomes
from dragoman.services.approvals.ports import Authors, Decided
from dragoman.services.approvals.service import ApprovalService
from dragoman.services.approvals.store import PROMISED, ApprovalStore, SweepStore
from dragoman.services.approvals.sweep import Sweep
from dragoman.services.approvals.targets import Targets
from dragoman.services.audit.statements import Statements
from dragoman.services.audit.trail import AuditTrail
from dragoman.services.knowledge.curation import Curator
from dragoman.services.knowledge.sync import Syncer
from dragoman.services.tasks.actions.actors import Actors, Grants
from dragoman.services.tasks.actions.ports import Registry, Resources
from dragoman.services.tenancy.store import TenancyStore


@dataclass(slots=True)
class ApprovalCore:
    """The approvals of this process: to be started after the database, and stopped before it.

    `judge` is the governance of delegated tasks.
    """

    judge: Judge
    changes: KnowledgeConsent
    outcomes: Outcomes
    targets: Targets
    sweep: Sweep
    actors: Actors

    def deciders(self, registry: Registry, resources: Resources) -> Deciders:
        """Who decides on delegated tasks; approvals ask the same registry and the same resources."""
        self.targets.join(registry, resources)
        return Deciders(self.actors, registry, self.judge, resources)

    def join(self, decided: Decided, curator: Curator, syncer: Syncer) -> None:
        """Tell who waits of what is decided, and consent to what comes into force and ends."""
        self.outcomes.tell(decided)
        curator.consent = syncer.consent = self.changes


def build_approvals(
    handlers: Handlers,
    dbs: tuple[Database, Database],
    trails: tuple[AuditTrail, AuditTrail],
    governance: GovernanceCore,
    authors: Authors,
    grants: Grants,
    authority: Authority,
) -> ApprovalCore:
    """Bind the operations of approvals; databases and trails are those of the application and of the core."""
    db, core_db = dbs
    trail, core_trail = trails
    store, policies = ApprovalStore(db, Statements(db, trail, PROMISED)), governance.policies
    outcomes, targets, makers = Outcomes(), Targets(), TenancyStore(db)
    governance.join(targets)
    sweep = Sweep(SweepStore(core_db, core_trail), policies, outcomes)
    approvals = ApprovalService(
        store,
        db,
        policies,
        targets=targets,
        spoil=sweep.spoil_moved,
        outcomes=outcomes,
        authors=authors,
        grants=grants,
        makers=makers,
        new_id=new_id,
    )
    handlers.add(operations.REQUEST, approvals.request)
    handlers.add(operations.LIST, approvals.list)
    handlers.add(operations.SHOW, approvals.show)
    handlers.add(operations.DECIDE_ONE, approvals.decide, prepare=approvals.check_target)
    handlers.add(operations.WITHDRAW, approvals.withdraw)
    consent = Consent(store, db, makers)
    judge = Judge(
        consent,
        policies,
        governance.service,
        targets=targets,
        asking=approvals.ask,
        spoil=sweep.spoil_moved,
        authority=authority.version,
    )
    changes = KnowledgeConsent(consent, policies, authors)
    return ApprovalCore(judge, changes, outcomes, targets, sweep, Actors(grants))
