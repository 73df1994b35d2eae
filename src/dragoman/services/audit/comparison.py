"""The database rows that records speak for, read in bulk, to be held against the chain."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final
from uuid import UUID

from dragoman.blocking import Threads
from dragoman.errors import InvalidInput
from dragoman.infra.db import Database, Scope
from dragoman.services.audit.promises import Promises
from dragoman.services.audit.rows import Columns, RowGroup, Value, state_columns
from dragoman.services.audit.statements import read_rows

# Parents at a time: what is read of them has to fit into memory, and other requests have their turn in between.
_PARENTS: Final = 500
_FIRST_ID = UUID(int=0)
# A row that contradicts itself: table, key, column, what it should be and what it is.
Broken = tuple[str, str, str, Value, Value]


class RowComparison:
    """Reads the rows of every group, page by page."""

    def __init__(self, db: Database, groups: Sequence[RowGroup], threads: Threads) -> None:
        self._db = db
        self._groups = groups
        self._threads = threads
        # The tables of which every row is stated, by records of this version on.
        self.complete = {table.name: table.since for group in groups for table in group.tables if table.complete}

    async def compare(self, scope: Scope, promises: Promises) -> int:
        """Hold every row against what the chain says of it, in the open unit of work; return how many there are."""
        count = 0
        for group in self._groups:
            async for parents in self._pages(scope, group):
                read: Any = [
                    (table.name, await self._db.fetch(scope, table.select, scope.tenant, parents))
                    for table in group.tables
                ]
                count += await self._threads.run(scope.tenant, _hold, promises, read)
                for table, key, column, should, found in await self._broken(scope, group, parents):
                    promises.report(f"{table}/{key}", column, should, found)
        await self._threads.run(scope.tenant, promises.finish)
        return count

    async def page(self, scope: Scope, cursor: str) -> tuple[dict[str, Columns], Sequence[Broken], str | None]:
        """Return the rows of some parents, those that contradict themselves, and where to go on; "" begins.

        Raises:
            InvalidInput: there is no such place.
        """
        place, after = _read_cursor(cursor, len(self._groups))
        group = self._groups[place]
        ids: Any = await self._db.fetch(scope, group.ids, scope.tenant, after, _PARENTS)
        parents = [row["id"] for row in ids]
        rows = await read_rows(self._db, scope, group, parents)
        broken = await self._broken(scope, group, parents)
        if len(parents) == _PARENTS:
            return rows, broken, f"{place}:{parents[-1]}"
        return rows, broken, f"{place + 1}:{_FIRST_ID}" if place + 1 < len(self._groups) else None

    async def _pages(self, scope: Scope, group: RowGroup) -> AsyncGenerator[list[UUID]]:
        after = _FIRST_ID
        while True:
            rows: Any = await self._db.fetch(scope, group.ids, scope.tenant, after, _PARENTS)
            if not rows:
                return
            yield [row["id"] for row in rows]
            after = rows[-1]["id"]

    async def _broken(self, scope: Scope, group: RowGroup, parents: Sequence[UUID]) -> list[Broken]:
        if group.broken is None or not parents:
            return []
        rows: Any = await self._db.fetch(scope, group.broken, scope.tenant, list(parents))
        return [tuple(row) for row in rows]


def _hold(promises: Promises, read: Sequence[tuple[str, Sequence[Any]]]) -> int:
    """Compare rows as the driver gave them."""
    found: dict[str, Columns] = {}
    for table, rows in read:
        for row in rows:
            key, columns = state_columns(row.items())
            found[f"{table}/{key}"] = columns
    promises.compare(found)
    return len(found)


def _read_cursor(cursor: str, groups: int) -> tuple[int, UUID]:
    if not cursor:
        return 0, _FIRST_ID
    place, _, after = cursor.partition(":")
    try:
        found = int(place), UUID(after)
    except ValueError:
        found = (groups, _FIRST_ID)
    if not 0 <= found[0] < groups:
        raise InvalidInput.of("cursor", "must be the next_cursor of the page before")
    return found
