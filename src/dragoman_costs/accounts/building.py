"""Puts cloud accounts together."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from dragoman.infra.config import read_environment
from dragoman.infra.ids import new_id
from dragoman.infra.jobs import Job
from dragoman.infra.outbound import TenantClients, Upstream
from dragoman.plugin import Platform, Vertical
from dragoman.services.inbox.topics import EXPORT_READY
from dragoman_costs.accounts import operations as o
from dragoman_costs.accounts.announcements import Announcements
from dragoman_costs.accounts.checking import AccountCheck
from dragoman_costs.accounts.credentials import Credentials
from dragoman_costs.accounts.exports import Exports
from dragoman_costs.accounts.schedule import ScheduledSyncs
from dragoman_costs.accounts.service import AccountService
from dragoman_costs.accounts.store import AccountStore
from dragoman_costs.accounts.store_syncing import AccountSchedule, KnownExports
from dragoman_costs.accounts.syncing import AccountSync
from dragoman_costs.settings import CostSettings

_LISTING_BYTES: Final = 2_097_152


def build_accounts(platform: Platform) -> Vertical:
    """Bind the operations on cloud accounts."""
    settings = platform.section(CostSettings)
    credentials = Credentials(
        platform.vault,
        env_prefix=settings.env_prefix,
        directory=settings.credentials_dir,
        environment=read_environment,
    )
    store = AccountStore(platform.db)
    accounts = AccountService(store, credentials, new_id=new_id)
    listing = platform.outgoing.of_tenants(
        Upstream.BILLING_EXPORT, most_bytes=_LISTING_BYTES, timeout_s=10, answer_s=20
    )
    reading = platform.outgoing.of_tenants(Upstream.BILLING_EXPORT, most_bytes=settings.max_import_bytes, timeout_s=60)
    exports = Exports(credentials, listing=listing, reading=reading)
    check = AccountCheck(store, exports)
    sync = AccountSync(store, KnownExports(platform.db), exports, run=platform.run, new_id=new_id)
    schedule = AccountSchedule(platform.db, platform.core_db)
    syncs = ScheduledSyncs(schedule, run=platform.run, every_s=settings.sync_s)
    platform.handlers.add(o.CREATE, accounts.create, prepare=accounts.check_new)
    platform.handlers.add(o.LIST, accounts.list)
    platform.handlers.add(o.GET, accounts.get)
    platform.handlers.add(o.UPDATE, accounts.update, prepare=accounts.check_change)
    platform.handlers.add(o.DELETE, accounts.delete)
    platform.handlers.add(o.TEST, check.test)
    platform.handlers.add(o.SYNC, sync.submit)
    announced = Announcements(platform.run)
    return Vertical(
        workers=(sync,),
        events={EXPORT_READY: announced.export_ready},
        running=partial(_open, syncs.job, listing, reading),
    )


@asynccontextmanager
async def _open(job: Job, *clients: TenantClients) -> AsyncGenerator[Sequence[Job]]:
    try:
        yield (job,)
    finally:
        for client in clients:
            await client.aclose()
