"""Puts cloud accounts together."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from dragoman.infra.config import read_environment
from dragoman.infra.ids import new_id
from dragoman.infra.jobs import Job
from dragoman.infra.outbound import Upstream
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
    """Bind the operations on cloud accounts; return their worker and their job."""
    credentials, exports = _make_credentials(platform), make_exports(platform)
    store = AccountStore(platform.db)
    accounts = AccountService(store, credentials, new_id=new_id)
    check = AccountCheck(store, exports)
    sync = AccountSync(store, KnownExports(platform.db), exports, run=platform.run, new_id=new_id)
    schedule = AccountSchedule(platform.db, platform.core_db)
    syncs = ScheduledSyncs(schedule, run=platform.run, every_s=platform.section(CostSettings).sync_s)
    platform.handlers.add(o.CREATE, accounts.create, prepare=accounts.check_new)
    platform.handlers.add(o.LIST, accounts.list)
    platform.handlers.add(o.GET, accounts.get)
    platform.handlers.add(o.UPDATE, accounts.update, prepare=accounts.check_change)
    platform.handlers.add(o.DELETE, accounts.delete)
    platform.handlers.add(o.TEST, check.test)
    platform.handlers.add(o.SYNC, sync.submit)
    announced = Announcements(platform.run)

    @asynccontextmanager
    async def running() -> AsyncGenerator[Sequence[Job]]:
        try:
            yield (syncs.job,)
        finally:
            await exports.aclose()

    return Vertical(workers=(sync,), handles={EXPORT_READY: announced.export_ready}, running=running)


def make_exports(platform: Platform) -> Exports:
    """Return what opens the exports of accounts, for those who read them; it is to be closed."""
    most_bytes = platform.section(CostSettings).max_import_bytes
    clients = platform.outgoing.of_tenants
    return Exports(
        _make_credentials(platform),
        listing=clients(Upstream.BILLING_EXPORT, most_bytes=_LISTING_BYTES, timeout_s=10, answer_s=20),
        reading=clients(Upstream.BILLING_EXPORT, most_bytes=most_bytes, timeout_s=60),
    )


def _make_credentials(platform: Platform) -> Credentials:
    settings = platform.section(CostSettings)
    return Credentials(
        platform.vault,
        env_prefix=settings.env_prefix,
        directory=settings.credentials_dir,
        environment=read_environment,
    )
