"""The process in which billing exports are read: strangers wrote them, and a small file can ask for all of the memory.

What cannot be read is answered with `refused`. A process that is out of memory or time ends: the next file gets a fresh
one. DuckDB sees the one file and its work directory, and no network.
"""

import codecs
import csv
import hashlib
import threading
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import IO, Any, Final

import duckdb

from dragoman.infra.frames import Tell, serve
from dragoman_costs.imports.focus import NotFocus, find_delimiter, read_columns
from dragoman_costs.imports.store_export import Export
from dragoman_costs.imports.store_scan import (
    list_parquet_columns,
    quoted,
    scan_csv,
    scan_parquet,
    unpacked_parquet_bytes,
)

Json = dict[str, Any]
_CHUNK: Final = 1_048_576
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
# Billing exports shrink to a tenth or a thirtieth; what shrinks to less than this was made to fill a disk.
_MOST_RATIO, _RATIO_FROM_BYTES = 200, 67_108_864
_LONGEST_HEADER: Final = 131_072
_WATCH_S: Final = 0.25
_DATABASE: Final = "work.duckdb"


class Refused(Exception):
    """The file is not to be read; the reason is part of the error that callers get."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def survey(asked: Json) -> Json:
    """Look at every row; return what the file is, and how to go on with it."""
    path, work = Path(asked["file"]), Path(asked["work"])
    digest = _Digest(path)
    readable = _unpack(path, work, asked["most_bytes"])
    text = digest if readable == path else _Digest(readable)
    found = _survey(asked, readable, damaged=False)
    if found["reading"]["kind"] == "csv" and text.is_damaged():
        (work / _DATABASE).unlink()
        found = _survey(asked, readable, damaged=True)
    return found | {"sha256": digest.result()}


def _survey(asked: Json, file: Path, *, damaged: bool) -> Json:
    with _database(asked, file) as db:
        kind, scan, columns = _open(db, file, asked["most_bytes"], damaged=damaged)
        export = Export(db, scan, columns)
        export.survey(rejects=kind == "csv")
        count, bad = export.list_bad(asked["most_bad"])
        return {
            "reading": {"file": str(file), "kind": kind, "columns": columns, "damaged": damaged},
            "rows": export.count(),
            "bad_count": count,
            "bad": bad,
            "periods": [[period.isoformat(), rows] for period, rows in export.list_periods()],
            "exact": export.roll_up(),
            "extra": export.list_constants(),
        }


def inspect(asked: Json) -> Json:
    """Return whose bill it is."""
    path, work = Path(asked["file"]), Path(asked["work"])
    readable = _unpack(path, work, asked["most_bytes"])
    with _database(asked, readable) as db:
        _, scan, columns = _open(db, readable, asked["most_bytes"], damaged=False)
        found = Export(db, scan, columns).list_accounts(most=20)
    return {"accounts": [{"provider": one, "billing_account": account, "rows": n} for one, account, n in found]}


def write(asked: Json) -> Json:
    """Write the rows of some periods, and their sums, as files for PostgreSQL."""
    reading = asked["reading"]
    periods = [date.fromisoformat(period) for period in asked["periods"]]
    rows, sums = Path(asked["into"]) / "rows", Path(asked["into"]) / "sums"
    sums.mkdir(parents=True)
    with _database(asked, Path(reading["file"])) as db:
        if reading["kind"] == "csv":
            scan = scan_csv(reading["file"], len(reading["columns"]), damaged=reading["damaged"])
        else:
            scan = scan_parquet(db, reading["file"])
        export = Export(db, scan, reading["columns"])
        export.write_rows(periods, rows)
        if asked["exact"]:
            export.write_roll_ups(periods, sums)
    return {
        "rows": sorted(str(file) for file in rows.iterdir()),
        "sums": {file.stem: str(file) for file in sums.iterdir()},
    }


class _Digest:
    """The SHA-256 of a file and whether it is text, found in a thread beside the other work."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digest = hashlib.sha256()
        self._damaged = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def result(self) -> str:
        """Return the SHA-256 in hexadecimal."""
        self._thread.join()
        return self._digest.hexdigest()

    def is_damaged(self) -> bool:
        """Return whether bytes of the file are no text."""
        self._thread.join()
        return self._damaged

    def _run(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")()
        with self._path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                self._digest.update(chunk)
                if not self._damaged:
                    self._damaged = not _decodes(decoder, chunk)


def _decodes(decoder: codecs.IncrementalDecoder, chunk: bytes) -> bool:
    try:
        decoder.decode(chunk)
    except UnicodeDecodeError:
        return False
    return True


def _unpack(path: Path, work: Path, most_bytes: int) -> Path:
    """Return the file that DuckDB reads: the one given, or what it holds where it is packed."""
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
        file.seek(0)
        if packed:
            return _inflate(file, work / "export", most_bytes)
    if path.stat().st_size > most_bytes:
        raise _too_large(most_bytes)
    return path


def _inflate(file: IO[bytes], into: Path, most_bytes: int) -> Path:
    read = written = 0
    unpacking = zlib.decompressobj(wbits=31)
    with into.open("wb") as out:
        while chunk := file.read(_CHUNK):
            read += len(chunk)
            while chunk:
                if unpacking.eof:
                    unpacking = zlib.decompressobj(wbits=31)
                content = unpacking.decompress(chunk, _CHUNK)
                chunk = unpacking.unconsumed_tail or unpacking.unused_data
                written += len(content)
                if written > most_bytes:
                    raise _too_large(most_bytes)
                if written > max(_RATIO_FROM_BYTES, _MOST_RATIO * read):
                    raise Refused("TOO_LARGE", f"it unpacks to more than {_MOST_RATIO} times its size")
                out.write(content)
    if not unpacking.eof:
        raise Refused("UNREADABLE", "the gzip file ends in the middle: send it again")
    return into


def _too_large(most_bytes: int) -> Refused:
    return Refused(
        "TOO_LARGE", f"unpacked it is larger than {most_bytes:,} bytes (DRAGOMAN_COSTS__MAX_IMPORT_BYTES): split it"
    )


@contextmanager
def _database(asked: Json, file: Path) -> Generator[duckdb.DuckDBPyConnection]:
    """A DuckDB that reads this file, keeps its own in the work directory, and touches nothing else."""
    work = Path(asked["work"])
    db = duckdb.connect(
        str(work / _DATABASE),
        config={
            "threads": asked["threads"],
            "memory_limit": f"{asked['memory_bytes']}B",
            "temp_directory": str(work / "spill"),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
    full = threading.Event()
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_WATCH_S):
            if _size(work) > asked["most_work_bytes"]:
                full.set()
                db.interrupt()

    watching = threading.Thread(target=watch, daemon=True)
    try:
        db.execute("SET TimeZone = 'UTC'")
        db.execute(f"SET allowed_paths = [{quoted(str(file))}]")
        db.execute(f"SET allowed_directories = [{quoted(str(work) + '/')}]")
        db.execute("SET enable_external_access = false")
        db.execute("SET lock_configuration = true")
        watching.start()
        yield db
    except duckdb.InterruptException:
        if full.is_set():
            raise Refused("TOO_LARGE", "reading it takes more of the disk than an import may use") from None
        raise
    finally:
        done.set()
        db.close()


def _size(directory: Path) -> int:
    total = 0
    for file in directory.rglob("*"):
        try:
            total += file.stat().st_size
        except FileNotFoundError:
            continue
    return total


def _open(db: duckdb.DuckDBPyConnection, file: Path, most_bytes: int, *, damaged: bool) -> tuple[str, str, list[str]]:
    """Return the kind of a file, the table expression of its rows, and its columns."""
    with file.open("rb") as content:
        start = content.read(_LONGEST_HEADER)
    if start.startswith(_PARQUET):
        if unpacked_parquet_bytes(db, str(file)) > most_bytes:
            raise _too_large(most_bytes)
        columns = read_columns(list_parquet_columns(db, str(file)))
        return "parquet", scan_parquet(db, str(file)), columns
    columns = _read_header(start)
    return "csv", scan_csv(str(file), len(columns), damaged=damaged), columns


def _read_header(start: bytes) -> list[str]:
    if b"\0" in start:
        raise Refused("UNREADABLE", "it is neither CSV, gzip nor Parquet")
    text = start.decode("utf-8-sig", errors="replace")
    if not text.strip():
        raise Refused("EMPTY", "the file is empty")
    header = text.splitlines()[0]
    if (delimiter := find_delimiter(header)) is not None:
        raise Refused(
            "WRONG_DELIMITER", f"its values are separated by a {delimiter}: billing exports of FOCUS have commas"
        )
    return read_columns(next(csv.reader([header])))


def answer(asked: Json, _: Tell) -> Json:
    """Do one step of an import, whatever the file is."""
    try:
        if asked["do"] == "survey":
            return survey(asked)
        return write(asked) if asked["do"] == "write" else inspect(asked)
    except (Refused, NotFocus) as refused:
        columns = refused.columns if isinstance(refused, NotFocus) else []
        return {"refused": refused.reason, "message": refused.message, "columns": columns}
    except duckdb.OutOfMemoryException:
        return {"refused": "TOO_LARGE", "message": "reading it takes more memory than an import may use"}
    except (duckdb.Error, zlib.error, OSError, csv.Error) as error:
        return {"refused": "UNREADABLE", "message": str(error).partition("\n")[0][:300]}


if __name__ == "__main__":
    serve(answer)
