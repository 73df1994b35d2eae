"""The table expressions by which DuckDB reads a file: every value as text, and the number of its line."""

from typing import Final

from duckdb import DuckDBPyConnection

_NESTED: Final = ("STRUCT", "MAP", "UNION")


def scan_csv(path: str, columns: int, *, damaged: bool) -> str:
    """Return the rows of a CSV file. Lines that are no rows are set aside in `reject_errors`.

    Bytes that are no text are found only in columns that a statement reads: in a file that is `damaged` by some, every
    statement reads all of them, and sets the same lines aside.
    """
    names = ", ".join(f"c{place}" for place in range(columns))
    all_read = f" WHERE strlen(concat({names})) < 4000000000" if damaged else ""
    types = ", ".join(f"'c{place}': 'VARCHAR'" for place in range(columns))
    return f"""(
        SELECT (row_number() OVER ())::INTEGER AS line, * FROM read_csv({quoted(path)}, columns = {{{types}}},
            header = true, auto_detect = false, delim = ',', quote = '"', escape = '"', nullstr = ['NULL', ''],
            store_rejects = true, rejects_limit = 0, null_padding = false, strict_mode = true){all_read})"""


def scan_parquet(db: DuckDBPyConnection, path: str) -> str:
    """Return the rows of a Parquet file."""
    columns = _describe(db, path)
    texts = ", ".join(f"{_asquoted(name, kind)} AS c{place}" for place, (name, kind) in enumerate(columns))
    return f"""(
        SELECT (file_row_number + 1)::INTEGER AS line, {texts}
        FROM read_parquet({quoted(path)}, binary_as_string = true, file_row_number = true))"""


def list_parquet_columns(db: DuckDBPyConnection, path: str) -> list[str]:
    """Return the names of the columns of a Parquet file."""
    return [name for name, _ in _describe(db, path)]


def unpacked_parquet_bytes(db: DuckDBPyConnection, path: str) -> int:
    """Return how large a Parquet file says that it is without compression."""
    row = db.execute(
        f"SELECT coalesce(sum(total_uncompressed_size), 0) FROM parquet_metadata({quoted(path)})"
    ).fetchone()
    return int(row[0]) if row else 0


def _describe(db: DuckDBPyConnection, path: str) -> list[tuple[str, str]]:
    found = db.execute(f"DESCRIBE SELECT * FROM read_parquet({quoted(path)}, binary_as_string = true)").fetchall()
    return [(row[0], row[1]) for row in found]


def _asquoted(name: str, kind: str) -> str:
    quoted = '"' + name.replace('"', '""') + '"'
    nested = kind.startswith(_NESTED) or kind.endswith("]")
    value = f"to_json({quoted})::VARCHAR" if nested else f"{quoted}::VARCHAR"
    # PostgreSQL takes no null character.
    return f"nullif(nullif(replace({value}, chr(0), ''), 'NULL'), '')"


def quoted(value: str) -> str:
    """Return text as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"
