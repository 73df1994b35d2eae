"""The job that has every account synced once in a while, and removes accounts that were deleted."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

import structlog

from dragoman.context import Caller, Role, ourselves
from dragoman.errors import DragomanError
from dragoman.infra.jobs import Job
from dragoman.plugin import GateRun
from dragoman_costs.accounts.store_syncing import AccountSchedule, DueAccount
from dragoman_costs.accounts.syncing import envelope_of

_LOG = structlog.get_logger(__name__)
_LOOK_S: Final = 60.0
_BATCH: Final = 100


class ScheduledSyncs:
    """Every process has one. A sync that two of them ask for is one task, because its key is the time it was due."""

    def __init__(self, schedule: AccountSchedule, *, run: GateRun, every_s: int) -> None:
        self._schedule = schedule
        self._run = run
        self._every = timedelta(seconds=every_s)

    @property
    def job(self) -> Job:
        """Return the job."""
        return Job(name="cost_accounts", work=self.look, every_s=_LOOK_S)

    async def look(self) -> None:
        """Ask for the syncs that are due, and remove deleted accounts that are empty."""
        if self._every:
            for account in await self._schedule.list_due(_BATCH):
                await self._sync(account)
        for tenant, account_id in await self._schedule.list_deleted(_BATCH):
            await self._schedule.remove(tenant, account_id)

    async def _sync(self, account: DueAccount) -> None:
        slug = await self._schedule.find_slug(account.tenant)
        if slug is not None and not await self._submit(_caller(account, slug), account):
            return
        await self._schedule.advance(account, self._every)

    async def _submit(self, caller: Caller, account: DueAccount) -> bool:
        """Hand a sync over; whether it needs no other attempt soon."""
        envelope = envelope_of(caller, account.id, key=account.due_at.isoformat())
        try:
            await self._run("task.submit", caller, {"envelope": envelope})
        except DragomanError as error:
            if error.retryable:
                # It stays due.
                _LOG.warning("costs.sync_put_off", account=str(account.id), code=error.code)
                return False
            _LOG.error("costs.sync_refused", account=str(account.id), code=error.code, reason=error.message)
        return True


def _caller(account: DueAccount, slug: str) -> Caller:
    """Return the server in a tenant, as one who carries out what the tenant has set up."""
    caller = ourselves(account.tenant, "cost-sync", roles=frozenset({Role.OPERATOR}))
    return replace(caller, tenant_slug=slug)
