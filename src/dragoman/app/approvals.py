"""Puts approvals together: who asks and decides, who judges by them, and what ends them by itself."""

import asyncio
from dataclasses import dataclass, field

from dragoman.infra.db import Database
from dragoman.infra.ids import new_id
from dragoman.operations import Handlers
from dragoman.services.approvals import operations
from dragoman.services.approvals.outcomes import Outcomes
from dragoman.services.approvals.sensitivity import Sensitivity
from dragoman.services.approvals.service import ApprovalService
from dragoman.services.approvals.store import ApprovalStore, SweepStore
from dragoman.services.approvals.sweep import Sweep
from dragoman.services.governance.library import PolicyLibrary


@dataclass(slots=True)
class ApprovalCore:
    """The approvals of this process: to be started after the database, and stopped before it."""

    outcomes: Outcomes
    sensitivity: Sensitivity
    sweep: Sweep
    jobs: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    async def start(self) -> None:
        """End what is over from now on."""
        self.jobs = [asyncio.create_task(self.sweep.run())]

    async def stop(self) -> None:
        """Leave it to the others."""
        for job in self.jobs:
            job.cancel()
        await asyncio.gather(*self.jobs, return_exceptions=True)


def build_approvals(handlers: Handlers, db: Database, core_db: Database, policies: PolicyLibrary) -> ApprovalCore:
    """Bind the operations of approvals."""
    outcomes, sensitivity = Outcomes(), Sensitivity()
    approvals = ApprovalService(
        ApprovalStore(db), db, policies, sensitive=sensitivity, outcomes=outcomes, new_id=new_id
    )
    handlers.add(operations.REQUEST, approvals.request)
    handlers.add(operations.LIST, approvals.list)
    handlers.add(operations.SHOW, approvals.show)
    handlers.add(operations.DECIDE_ONE, approvals.decide)
    handlers.add(operations.WITHDRAW, approvals.withdraw)
    return ApprovalCore(outcomes, sensitivity, Sweep(SweepStore(core_db), policies, outcomes))
