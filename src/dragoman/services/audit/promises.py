"""What the records of a chain promise of database rows, and rows held against that: the standard library alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dragoman.services.audit.store_shelf import NEW, Said, Shelf, later, values_of

Value = str | int | bool | None
# In place of a column: the row as such.
ROW = "*"
# The first version of records that say which rows they were written with.
_SPEAKS_OF_ROWS = 2
_MOST_DISAGREEMENTS = 100
# As many rows fit into some 60 MB; those of a longer chain go to a file.
_IN_MEMORY = 50_000


@dataclass(frozen=True)
class Disagreement:
    """A database row that is not as the chain says."""

    table: str
    key: str
    column: str
    chain: Value
    row: Value
    seq: int | None = None

    def __str__(self) -> str:
        where = f" (link {self.seq})" if self.seq else ""
        if self.column == ROW:
            return f"{self.table} {self.key}: {self.row}{where}"
        return f"{self.table} {self.key}: {self.column} is {self.row!r}, the chain says {self.chain!r}{where}"


class Promises:
    """What the records of a chain say of database rows: of each column the last word.

    Of a table in `complete` every row is stated, by records of that version on: one that no record knows is reported,
    unless it is older than the first of these. Beyond `in_memory` rows, what was said waits in a temporary file.
    """

    def __init__(self, complete: Mapping[str, int] | None = None, *, in_memory: int = _IN_MEMORY) -> None:
        self._complete = dict(complete or {})
        self._in_memory = in_memory
        self._rows: dict[str, Said] = {}
        self._removed: set[str] = set()
        self._shelf: Shelf | None = None
        self._ignored: set[str] = set()
        self._since_ms: dict[int, int] = {}
        self._newest_version = 0
        self.broken = 0
        self.disagreements: list[Disagreement] = []

    def take(self, seq: int | None, record: dict[str, Any]) -> None:
        """Take over what a record says."""
        version = record.get("v", 1)
        if version > self._newest_version and version >= _SPEAKS_OF_ROWS:
            made_ms = _made_ms(record["id"])
            for each in range(max(self._newest_version, _SPEAKS_OF_ROWS - 1) + 1, version + 1):
                self._since_ms[each] = made_ms
            self._newest_version = version
        stated: dict[str, dict[str, Any] | None] | None = record.get("rows")
        if not stated:
            return
        record_id: str = record["id"]
        rows = self._rows
        for name, columns in stated.items():
            said = (record_id, seq, columns)
            if columns is None and name.count("/") == 1:
                self._removed.add(name.partition("/")[2])
            known = rows.get(name)
            rows[name] = said if known is None else later(known, said)
        if len(rows) > self._in_memory:
            self._put_away()

    def compare(self, found: Mapping[str, dict[str, Any]]) -> None:
        """Hold rows against what was said of them, by `table/key`."""
        if self._shelf is not None:
            self._put_away()
            known = self._shelf.take(list(found))
        else:
            known = {name: said for name in found if (said := self._rows.pop(name, None)) is not None}
        for name, columns in found.items():
            if name not in self._ignored:
                self._hold(name, columns, known.get(name))

    @property
    def left_out(self) -> int:
        """How many rows nothing is said of."""
        return len(self._ignored)

    def leave_out(self, record: dict[str, Any]) -> None:
        """Say nothing of the rows of this record: they were written again after the chain that is at hand ends."""
        stated: dict[str, dict[str, Any] | None] = record.get("rows") or {}
        for name, columns in stated.items():
            self._ignored.add(name)
            if columns is None and name.count("/") == 1:
                self._removed.add(_parent(name))

    def finish(self) -> None:
        """Report the rows that should be there and were not compared."""
        if self._shelf is not None:
            self._put_away()
            for name, seq in self._shelf.rest():
                self._miss(name, seq)
            self.close()
            return
        for name, (_, seq, columns) in self._rows.items():
            if columns is not None and _parent(name) not in self._removed:
                self._miss(name, seq)

    def close(self) -> None:
        """Remove the temporary file."""
        if self._shelf is not None:
            self._shelf.close()

    def report(self, name: str, column: str, chain: Value, row: Value, seq: int | None = None) -> None:
        """Note a row that disagrees; all are counted, the first hundred are kept."""
        self.broken += 1
        if len(self.disagreements) < _MOST_DISAGREEMENTS:
            table, _, key = name.partition("/")
            self.disagreements.append(Disagreement(table, key, column, chain, row, seq))

    def _hold(self, name: str, found: dict[str, Any], known: Said | None) -> None:
        if known is None:
            since_ms = self._since_ms.get(self._complete.get(name.partition("/")[0], -1))
            if since_ms is not None and _made_ms(_parent(name)) > since_ms:
                self.report(name, ROW, None, "no record knows this row")
            return
        _, seq, columns = known
        if columns is None:
            self.report(name, ROW, None, "this row was removed, and is there", seq)
            return
        for column, value in columns.items():
            if column != NEW and found.get(column) not in values_of(value):
                self.report(name, column, _shown(value), found.get(column), seq)

    def _miss(self, name: str, seq: int | None) -> None:
        if name not in self._ignored:
            self.report(name, ROW, "a row", "this row is missing", seq)

    def _put_away(self) -> None:
        if self._rows or self._removed:
            self._shelf = self._shelf or Shelf()
            self._shelf.put(self._rows, self._removed)
            self._rows, self._removed = {}, set()


def _parent(name: str) -> str:
    return name.split("/", 2)[1]


def _made_ms(uuid7: str) -> int:
    """When an id was made; ids sort by time."""
    return int(uuid7.replace("-", "")[:12], 16)


def _shown(stated: Any) -> Value:
    """Return what the chain says of a column, as text where it leaves several values."""
    values = values_of(stated)
    return values[0] if len(values) == 1 else " or ".join(str(value) for value in values)
