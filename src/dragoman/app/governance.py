"""Puts governance together: the policies that the knowledge holds, and what was decided by them."""

from dataclasses import dataclass

from dragoman.infra.db import Database
from dragoman.infra.ids import new_id
from dragoman.operations import Handlers
from dragoman.services.governance import operations
from dragoman.services.governance.library import PolicyLibrary
from dragoman.services.governance.ports import ActionInputs
from dragoman.services.governance.proposed_rules import ProposedRules
from dragoman.services.governance.service import GovernanceService
from dragoman.services.governance.store import GovernanceStore
from dragoman.services.knowledge.curation import Curator
from dragoman.services.knowledge.repositories import Repositories


@dataclass(frozen=True, slots=True)
class GovernanceCore:
    """Governance, for whoever else judges by policies."""

    policies: PolicyLibrary
    service: GovernanceService
    rules: ProposedRules

    def join(self, inputs: ActionInputs) -> None:
        """Ask there what actions take."""
        self.service.inputs = self.rules.inputs = inputs


def bind_governance(handlers: Handlers, db: Database, repositories: Repositories, curator: Curator) -> GovernanceCore:
    """Bind the operations of governance, and have the curator ask about rules that are proposed."""
    library = PolicyLibrary(repositories)
    governance = GovernanceService(library, GovernanceStore(db), new_id=new_id)
    handlers.add(operations.VALIDATE, governance.validate)
    handlers.add(operations.CHECK_DRIFT, governance.check_drift)
    handlers.add(operations.SUPPRESS, governance.suppress)
    handlers.add(operations.LIST_SUPPRESSIONS, governance.suppressions)
    handlers.add(operations.LIFT_SUPPRESSION, governance.unsuppress)
    handlers.add(operations.LIST_POLICIES, governance.policies)
    handlers.add(operations.LIST_DECISIONS, governance.decisions)
    handlers.add(operations.REPLAY, governance.replay)
    curator.rules = rules = ProposedRules()
    return GovernanceCore(library, governance, rules)
