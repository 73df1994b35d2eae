"""How imports end: kept and told in one transaction."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from dragoman.errors import DragomanError
from dragoman.infra.db import Database, Scope
from dragoman.plugin import Publish
from dragoman_costs.imports.models import ImportState
from dragoman_costs.imports.store import ImportStore

Record = dict[str, Any]
_EVENT: Final = "import.finished"


class ImportEndings:
    """Keeps how an import ended, and tells subscribers of it."""

    def __init__(self, db: Database, store: ImportStore, publish: Publish) -> None:
        self._db = db
        self._store = store
        self._publish = publish

    async def end(
        self,
        scope: Scope,
        import_id: UUID,
        state: ImportState,
        *,
        periods: list[Record] | None = None,
        totals: Sequence[Record] = (),
        error: Record | None = None,
    ) -> None:
        """End an import."""
        async with self._db.unit(scope):
            row = await self._store.finish(scope, import_id, state.value, periods=periods, totals=totals, error=error)
            if row is not None and scope.tenant is not None:
                told = {**row, "account_id": str(row["account_id"]), "code": (error or {}).get("code")}
                await self._publish(scope.tenant, _EVENT, subject=str(import_id), data=told)

    async def fail(self, scope: Scope, import_id: UUID, error: DragomanError) -> None:
        """End an import that failed."""
        shown = {"code": error.code, "message": error.message, "details": error.details}
        await self.end(scope, import_id, ImportState.FAILED, error=shown)
