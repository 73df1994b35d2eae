"""Stating rows in the record of what wrote them.

A store that writes a row states it in the same transaction. Inside an operation the statement becomes part of the
record that the gate writes; elsewhere, in the work of a task, it is a record of its own.
"""

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from dragoman.context import current_task, ourselves
from dragoman.infra.db import Database, Scope
from dragoman.services.audit.models import Outcome
from dragoman.services.audit.rows import Columns, RowGroup, state_columns
from dragoman.services.audit.trail import AuditTrail, Entry


@dataclass(slots=True)
class _Collection:
    rows: dict[str, Columns | None] = field(default_factory=dict[str, "Columns | None"])
    # A task that was started inside may outlive the operation; what it writes is not part of its record.
    open: bool = True


_COLLECTION: ContextVar[_Collection | None] = ContextVar("dragoman_stated_rows", default=None)


@contextmanager
def collected() -> Generator[dict[str, Columns | None]]:
    """Gather what is stated inside, for a record that is written in the same transaction."""
    collection = _Collection()
    token = _COLLECTION.set(collection)
    try:
        yield collection.rows
    finally:
        collection.open = False
        _COLLECTION.reset(token)


class Statements:
    """States rows of one group as they are in the open unit of work."""

    def __init__(self, db: Database, trail: AuditTrail, group: RowGroup) -> None:
        self._db = db
        self._trail = trail
        self._group = group

    async def add(self, scope: Scope, operation: str, parent: UUID, *, only: Collection[str] | None = None) -> None:
        """State the rows of a parent, or `only` those of these names, in the record of what is being done.

        `operation` is what a record of its own says, where no operation of a caller is being recorded.
        """
        rows = await read_rows(self._db, scope, self._group, [parent])
        if only is not None:
            rows = {name: columns for name, columns in rows.items() if name in only}
        await self.add_rows(scope, operation, str(parent), rows)

    async def add_rows(self, scope: Scope, operation: str, resource: str, rows: Mapping[str, Columns | None]) -> None:
        """State these rows, of which None is one that was removed; otherwise like `add`."""
        collection = _COLLECTION.get()
        if collection is not None and collection.open:
            collection.rows.update(rows)
            return
        task = current_task()
        entry = Entry(operation, Outcome.DONE, resource=resource, details={"task": task} if task else None, rows=rows)
        await self._trail.add(scope, ourselves(_tenant(scope)), entry)


async def read_rows(db: Database, scope: Scope, group: RowGroup, parents: Collection[UUID]) -> dict[str, Columns]:
    """Return the rows of these parents by `table/key`, each column as a record states it."""
    rows: dict[str, Columns] = {}
    for table in group.tables:
        found: Any = await db.fetch(scope, table.select, scope.tenant, list(parents))
        for row in found:
            key, columns = state_columns(row.items())
            rows[f"{table.name}/{key}"] = columns
    return rows


def _tenant(scope: Scope) -> UUID:
    if scope.tenant is None:
        raise ValueError("rows are stated within a tenant")
    return scope.tenant
