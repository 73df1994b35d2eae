"""A temporary file for what a long chain says of rows, so that checking it takes no more memory than a short one."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast

# What was said last of a row: by which record, at which link, and its columns; None for a row that was removed.
Said = tuple[str, int | None, dict[str, Any] | None]
# Stands among the columns of a row that was removed and made again: nothing said before holds of it.
NEW = "*"
# In place of a value, where the order of statements leaves several.
EITHER = "either"
# Fewer parameters than any SQLite allows.
_AT_ONCE = 500
_CREATE = """
CREATE TABLE said (name TEXT PRIMARY KEY, parent TEXT, record TEXT, seq INTEGER, columns TEXT) WITHOUT ROWID;
CREATE TABLE removed (parent TEXT PRIMARY KEY) WITHOUT ROWID;"""
_FIND = "SELECT name, record, seq, columns FROM said WHERE name IN "
_REST = """
SELECT name, seq FROM said WHERE columns IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM removed r WHERE r.parent = said.parent) ORDER BY name"""


def later(one: Said, other: Said) -> Said:
    """Return what holds of two statements, of which `other` comes later in the chain.

    Of two that waited for each other the last one has the younger record, and perhaps the earlier link. Where servers
    have different clocks it is the other way round. So where the two orders contradict each other, either may hold.
    """
    contradict = other[0] < one[0]
    older, newer = (other, one) if contradict else (one, other)
    if newer[2] is None or NEW in newer[2]:
        return newer
    if older[2] is None:
        return newer[0], newer[1], {**newer[2], NEW: True}
    columns = {**older[2], **newer[2]}
    if contradict:
        for name, value in older[2].items():
            if columns[name] != value:
                columns[name] = {EITHER: [*values_of(columns[name]), *values_of(value)]}
    return newer[0], newer[1], columns


def values_of(stated: Any) -> list[Any]:
    """Return what a statement allows a column to be."""
    return cast("dict[str, list[Any]]", stated)[EITHER] if isinstance(stated, dict) else [stated]


class Shelf:
    """Keeps statements by the names of their rows. It is used by one thread at a time."""

    def __init__(self) -> None:
        # An empty name is that of a temporary file, which goes with the connection.
        import sqlite3  # noqa: PLC0415 - 2 MB, when a chain is compared

        self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -32000;")
        self._db.executescript(_CREATE)

    def put(self, rows: Mapping[str, Said], removed: Collection[str]) -> None:
        """Add statements to those that are here."""
        self._db.execute("BEGIN")
        known = self._find(list(rows))
        self._db.executemany(
            "INSERT OR REPLACE INTO said VALUES (?, ?, ?, ?, ?)",
            (_line(name, later(known[name], said) if name in known else said) for name, said in rows.items()),
        )
        self._db.executemany("INSERT OR IGNORE INTO removed VALUES (?)", ((parent,) for parent in removed))
        self._db.execute("COMMIT")

    def take(self, names: Sequence[str]) -> dict[str, Said]:
        """Return what was said of these, and forget it."""
        found = self._find(names)
        self._db.execute("BEGIN")
        self._db.executemany("DELETE FROM said WHERE name = ?", ((name,) for name in found))
        self._db.execute("COMMIT")
        return found

    def rest(self) -> Iterator[tuple[str, int | None]]:
        """Yield the rows that are left and were not removed, with the links that speak of them."""
        yield from self._db.execute(_REST)

    def close(self) -> None:
        """Remove the file."""
        self._db.close()

    def _find(self, names: Sequence[str]) -> dict[str, Said]:
        found: dict[str, Said] = {}
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            for name, record, seq, columns in self._db.execute(f"{_FIND}({','.join('?' * len(some))})", some):
                found[name] = (record, seq, json.loads(columns) if columns is not None else None)
        return found


def _line(name: str, said: Said) -> tuple[Any, ...]:
    columns = json.dumps(said[2]) if said[2] is not None else None
    return name, name.split("/", 2)[1], said[0], said[1], columns
