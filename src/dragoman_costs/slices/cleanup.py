"""The job that removes slices which were replaced or abandoned, and uploads that have expired."""

from datetime import timedelta
from typing import Final

import structlog

from dragoman.infra.jobs import Job
from dragoman_costs.slices.store_cleanup import CleanupStore

_LOG = structlog.get_logger(__name__)
_EVERY_S: Final = 60.0
# No import is at work for so long.
_ABANDONED: Final = timedelta(days=1)


class SliceCleanup:
    """Every process has one; what two of them remove at once is removed once."""

    def __init__(self, store: CleanupStore) -> None:
        self._store = store

    @property
    def job(self) -> Job:
        """Return the job that cleans up now and then."""
        return Job(name="cost_cleanup", work=self.clean, every_s=_EVERY_S)

    async def clean(self) -> None:
        """Remove all that is due."""
        slices = await self._store.list_slices(_ABANDONED)
        for tenant, slice_id in slices:
            await self._store.remove_slice(tenant, slice_id)
        uploads = await self._store.list_uploads()
        for tenant, upload_id in uploads:
            await self._store.remove_upload(tenant, upload_id)
        if slices or uploads:
            _LOG.info("costs.cleaned", slices=len(slices), uploads=len(uploads))
