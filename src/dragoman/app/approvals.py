"""Puts approvals together: who asks and decides, who judges by them, and what ends them by itself."""

from dataclasses import dataclass

from dragoman.app.delegation import Deciders
from dragoman.app.governance import GovernanceCore
from dragoman.infra.db import Database
from dragoman.infra.ids import new_id
from dragoman.operations import Handlers
from dragoman.services.approvals import operations
from dragoman.services.approvals.consent import Consent
from dragoman.services.approvals.judging import Judge
from dragoman.services.approvals.outcomes import Outcomes
from dragoman.services.approvals.ports import Authors, Decided
from dragoman.services.approvals.proposals import ProposalConsent
from dragoman.services.approvals.sensitivity import Sensitivity
from dragoman.services.approvals.service import ApprovalService
from dragoman.services.approvals.store import ApprovalStore, SweepStore
from dragoman.services.approvals.sweep import Sweep
from dragoman.services.audit.trail import AuditTrail
from dragoman.services.knowledge.curation import Curator
from dragoman.services.tasks.actions.ports import Documents, Registry


@dataclass(slots=True)
class ApprovalCore:
    """The approvals of this process: to be started after the database, and stopped before it.

    `judge` is the governance of delegated tasks.
    """

    judge: Judge
    proposals: ProposalConsent
    outcomes: Outcomes
    sensitivity: Sensitivity
    sweep: Sweep

    def deciders(self, registry: Registry, documents: Documents) -> Deciders:
        """Who decides on delegated tasks; the registry says here too which actions are sensitive."""
        self.sensitivity.registry = registry
        return Deciders(registry, self.judge, documents)

    def join(self, decided: Decided, curator: Curator) -> None:
        """Tell who waits of what is decided, and consent to new knowledge."""
        self.outcomes.tell(decided)
        curator.consent = self.proposals


def build_approvals(
    handlers: Handlers,
    dbs: tuple[Database, Database],
    trail: AuditTrail,
    governance: GovernanceCore,
    authors: Authors,
    authority_version: str,
) -> ApprovalCore:
    """Bind the operations of approvals; the databases are those of the application and of the core, as is the trail."""
    db, core_db = dbs
    store, policies = ApprovalStore(db), governance.policies
    outcomes, sensitivity = Outcomes(), Sensitivity()
    approvals = ApprovalService(
        store, db, policies, sensitive=sensitivity, outcomes=outcomes, authors=authors, new_id=new_id
    )
    handlers.add(operations.REQUEST, approvals.request)
    handlers.add(operations.LIST, approvals.list)
    handlers.add(operations.SHOW, approvals.show)
    handlers.add(operations.DECIDE_ONE, approvals.decide)
    handlers.add(operations.WITHDRAW, approvals.withdraw)
    consent = Consent(store, db)
    judge = Judge(consent, policies, governance.service, authority=authority_version)
    proposals = ProposalConsent(consent, policies, authors)
    return ApprovalCore(judge, proposals, outcomes, sensitivity, Sweep(SweepStore(core_db, trail), policies, outcomes))
