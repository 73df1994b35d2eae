"""Puts imports together."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from dragoman.infra.ids import new_id
from dragoman.infra.jobs import Job
from dragoman.infra.outbound import Upstream
from dragoman.plugin import Platform, Vertical
from dragoman_costs.accounts.building import make_exports
from dragoman_costs.accounts.reading import AccountExports
from dragoman_costs.accounts.store import AccountStore
from dragoman_costs.imports import operations as o
from dragoman_costs.imports.billing_accounts import BillingAccounts
from dragoman_costs.imports.endings import ImportEndings
from dragoman_costs.imports.files import ImportFiles
from dragoman_costs.imports.reader import ExportReader
from dragoman_costs.imports.service import ImportService
from dragoman_costs.imports.sources import Sources
from dragoman_costs.imports.store import ImportStore
from dragoman_costs.imports.store_uploads import UploadStore
from dragoman_costs.imports.uploads import UploadService
from dragoman_costs.imports.worker import ImportWorker
from dragoman_costs.settings import CostSettings
from dragoman_costs.slices.cleanup import SliceCleanup
from dragoman_costs.slices.store import SliceStore
from dragoman_costs.slices.store_cleanup import CleanupStore
from dragoman_costs.slices.store_loading import LoadingStore


def build_imports(platform: Platform) -> Vertical:
    """Bind the operations of imports; return their worker and their jobs."""
    settings = platform.section(CostSettings)
    most_bytes = settings.max_import_bytes
    files = ImportFiles(platform.settings.data_dir / "cost-imports")
    reader = ExportReader(
        most_bytes=most_bytes, memory_bytes=settings.import_memory_bytes, timeout_s=settings.import_timeout_s
    )
    uploads = UploadService(UploadStore(platform.db), files, most_bytes=most_bytes, new_id=new_id)
    exports = make_exports(platform)
    sources = Sources(
        uploads, files, platform.outgoing.of_tenants(Upstream.BILLING_EXPORT, most_bytes=most_bytes),
        AccountExports(AccountStore(platform.db), exports), directories=list(map(Path, settings.import_dirs)),
        most_bytes=most_bytes,
    )  # fmt: skip
    store = ImportStore(platform.db)
    endings = ImportEndings(platform.db, store, platform.publish)
    service = ImportService(store, sources, endings, run=platform.run, new_id=new_id)
    worker = ImportWorker(
        store, SliceStore(platform.db), LoadingStore(platform.db), sources, reader, files, endings,
        most_bad_percent=settings.max_bad_rows_percent, timeout_s=settings.import_timeout_s, new_id=new_id,
    )  # fmt: skip
    bills = BillingAccounts(AccountStore(platform.db), store, uploads, reader, files, new_id=new_id)
    handlers = platform.handlers
    handlers.add(o.IMPORT, service.request)
    handlers.add(o.BEGIN_UPLOAD, uploads.begin)
    handlers.add(o.ADD_PART, uploads.add_part)
    handlers.add(o.SHOW_UPLOAD, uploads.show)
    handlers.add(o.FIND_ACCOUNT, bills.find_account)
    handlers.add(o.LIST, service.list)
    handlers.add(o.SHOW, service.show)
    handlers.add(o.LIST_BAD_ROWS, service.list_bad_rows)
    cleanup = SliceCleanup(CleanupStore(platform.db, platform.core_db))

    @asynccontextmanager
    async def running() -> AsyncGenerator[Sequence[Job]]:
        try:
            yield (cleanup.job,)
        finally:
            await reader.stop()
            await exports.aclose()

    return Vertical(workers=(worker,), running=running)
