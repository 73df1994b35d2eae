"""The rows that records speak for: which columns carry a promise, and how a value of one is stated.

A record states a row as `table/key` with its columns. What is long, or is a document, is stated by its SHA-256, so that
a record stays small and holds no content.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString, cast
from uuid import UUID

from dragoman.errors import InvalidInput
from dragoman.infra.digests import canonical

Value = str | int | bool | None
Columns = dict[str, Value]
# By `table/key`; None for a row that was removed.
Rows = Mapping[str, Mapping[str, Value] | None]
# A longer text is stated by its hash.
_LONGEST: Final = 500


@dataclass(frozen=True, slots=True)
class RowTable:
    """A table whose rows are stated.

    `select` reads the rows of the parents `$2` of the tenant `$1`: their `key`, which begins with the id of the parent,
    and the columns that carry a promise. In a `complete` table every row is stated by some record, of the
    version `since` or a later one.
    """

    name: str
    select: LiteralString
    complete: bool = True
    since: int = 2


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Tables that hang together.

    `ids` reads up to `$3` ids of parents of the tenant `$1` after `$2`, in their order. `broken`, where there is one,
    reads rows of the parents `$2` that contradict themselves: table, key, column, what it should be and what it is.
    """

    ids: LiteralString
    tables: tuple[RowTable, ...]
    broken: LiteralString | None = None


def stated(value: Any) -> Value:
    """Return a value as a record states it: the same for what is about to be written and for what was read back."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else hashed(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.isoformat()
    return hashed(value)


def hashed(value: Any) -> str:
    """Return the SHA-256 of a document in canonical JSON (RFC 8785), whatever the database makes of its numbers."""
    try:
        content = canonical(value)
    except InvalidInput:
        content = canonical(_as_doubles(value))
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def state_columns(row: Iterable[tuple[str, Any]]) -> tuple[str, Columns]:
    """Return the key and the columns of a row that a `select` read."""
    columns = {name: stated(value) for name, value in row}
    return str(columns.pop("key")), columns


def _as_doubles(value: Any) -> Any:
    """Whole numbers beyond 2**53 as PostgreSQL may give back a number that was written as a fraction."""
    if isinstance(value, dict):
        return {key: _as_doubles(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_as_doubles(item) for item in cast("list[Any]", value)]
    return float(value) if type(value) is int and abs(value) >= 2**53 else value
