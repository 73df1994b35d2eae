"""An audit export, read line by line in little memory: the standard library alone.

export   tenant, public key, when it was made, and the tables of which every row is stated
record   a sealed record with its link; in the order of the chain
head     the signed end of the chain at that moment
tail     a record that came after the head, while the export was made: nothing proves it yet
row      a database row with the columns that carry a promise
broken   a row that contradicts itself, such as a content under a hash that is not its own
end      how many rows there are
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from dragoman.services.audit.chain import ChainCheck, Entry, Head, key_id, text_of, whole_of
from dragoman.services.audit.ed25519 import verify_signature
from dragoman.services.audit.promises import Promises

# Rows that are compared in one step.
_ROWS_AT_ONCE = 1_000


class Unreadable(Exception):
    """A file is not what it should be; the message says which line, and why."""


@dataclass(frozen=True)
class ExportCheck:
    """What an export is found to be."""

    chain: ChainCheck
    promises: Promises
    head: Head | None
    made_at: str | None
    rows: int
    # Whether the export has rows at all: those of older servers have none.
    has_rows: bool
    tail: int

    @property
    def fits(self) -> bool:
        """Whether nothing disagrees."""
        return not self.chain.broken and not self.promises.broken


def check_export(
    lines: Iterable[bytes],
    *,
    public_key: bytes | None,
    trusted: list[Head],
    on_record: Callable[[int | None, dict[str, Any]], None] | None = None,
) -> ExportCheck:
    """Check an export; `on_record` sees each record with its link, or None for one without a seal.

    Raises:
        Unreadable: it is no export.
    """
    reading = _Reading(public_key, trusted, on_record)
    for number, line in read_lines(lines):
        with _At(number):
            reading.take(line)
    return reading.finish()


class _Reading:
    """Takes the lines of an export one after the other."""

    def __init__(
        self,
        public_key: bytes | None,
        trusted: list[Head],
        on_record: Callable[[int | None, dict[str, Any]], None] | None,
    ) -> None:
        self._given_key = public_key
        self._trusted = trusted
        self._on_record = on_record
        self._chain: ChainCheck | None = None
        self._promises = Promises()
        self._head: Head | None = None
        self._made_at: str | None = None
        self._key = self._signer = b""
        self._has_rows = self._ended = False
        self._rows: dict[str, dict[str, Any]] = {}
        self._row_count = self._tail = 0

    def take(self, line: dict[str, Any]) -> None:
        """Take over a line."""
        kind = line.get("type")
        if self._chain is None:
            if kind != "export":
                raise ValueError("this is not an audit export, its first line is not of type export")
            self._chain = self._begin(line)
            return
        if self._ended:
            raise ValueError("nothing may follow the end")
        if kind == "record":
            if self._head is not None:
                raise ValueError("no record may follow the head")
            self._take_record(self._chain, line)
        elif kind == "head" and self._head is None:
            self._head = Head.from_json(line)
        elif kind in _AFTER_HEAD and self._has_rows:
            self._take_after(kind, line)
        else:
            raise ValueError("its type is neither record nor head, nor what may follow a head")

    def finish(self) -> ExportCheck:
        """Return what was found."""
        if self._chain is None:
            raise Unreadable("line 1: this is not an audit export, its first line is not of type export")
        check, head = self._chain, self._head
        check.finish(head)
        if self._key != self._signer:
            check.report(check.seq, "the export names another public key than the one that was given")
        if head is not None and (head.tenant != check.tenant or not self._signed(head)):
            check.report(head.seq, "the head's signature is not the key's")
        if self._has_rows and not self._ended:
            check.report(check.seq, "the export was cut: its end is missing")
        elif self._has_rows:
            self._compare()
            self._promises.finish()
        return ExportCheck(
            check, self._promises, head, self._made_at, self._row_count, has_rows=self._has_rows, tail=self._tail
        )

    def _begin(self, line: dict[str, Any]) -> ChainCheck:
        self._key = bytes.fromhex(text_of(line, "public_key"))
        self._signer = self._given_key or self._key
        tables: dict[str, int] | None = line.get("tables")
        if tables is not None:
            self._has_rows, self._made_at = True, text_of(line, "made_at")
            self._promises = Promises({name: int(since) for name, since in tables.items()})
        return ChainCheck(
            UUID(text_of(line, "tenant")), trusted=self._trusted, signed=self._signed, taken_at=self._made_at
        )

    def _take_record(self, check: ChainCheck, line: dict[str, Any]) -> None:
        entry, broken = _entry(line), check.broken
        check.follow(entry)
        if check.broken != broken or entry.body is None:
            return  # what it says is worth nothing
        record = _record(entry.body)
        self._promises.take(entry.seq, record)
        if self._on_record is not None:
            self._on_record(entry.seq, record)

    def _take_after(self, kind: str, line: dict[str, Any]) -> None:
        if kind == "tail":
            self._tail += 1
            record = _record(base64.b64decode(text_of(line, "body"), validate=True))
            self._promises.leave_out(record)
            if self._on_record is not None:
                self._on_record(None, record)
        elif kind == "row":
            columns = line.get("columns")
            if not isinstance(columns, dict):
                raise ValueError("columns is missing or is not an object")
            name = text_of(line, "name")
            UUID(name.split("/")[1])
            self._rows[name] = columns
            self._row_count += 1
            if len(self._rows) >= _ROWS_AT_ONCE:
                self._compare()
        elif kind == "broken":
            self._promises.report(
                f"{text_of(line, 'table')}/{text_of(line, 'key')}", text_of(line, "column"), line.get("chain"),
                line.get("row"),
            )  # fmt: skip
        else:
            self._ended = True
            if line.get("rows") != self._row_count or line.get("tail") != self._tail:
                raise ValueError("lines are missing: there are not as many rows as the end says")

    def _compare(self) -> None:
        self._promises.compare(self._rows)
        self._rows = {}

    def _signed(self, head: Head) -> bool:
        return head.key_id == key_id(self._signer) and verify_signature(
            self._signer, head.signed_bytes(), head.signature
        )


_AFTER_HEAD = ("tail", "row", "broken", "end")


def read_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    """JSON objects, one a line, with the numbers of their lines.

    Raises:
        Unreadable: a line is not one.
    """
    for number, line in enumerate(lines, 1):
        if line.strip():
            with _At(number):
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError("it is not a JSON object")  # noqa: TRY004 - all that is wrong is a ValueError
            yield number, row


def read_heads(lines: Iterable[bytes]) -> list[Head]:
    """The heads of a file: published ones, one a line, or that of an earlier export.

    Raises:
        Unreadable: a line is no head.
    """
    heads: list[Head] = []
    for number, row in read_lines(lines):
        if row.get("type", "head") == "head":
            with _At(number):
                heads.append(Head.from_json(row))
    return heads


# What comes of it when something is of another kind than it should be.
_UNREADABLE = (ValueError, TypeError, AttributeError, LookupError, RecursionError)


class _At:
    """Turns whatever is wrong with a line into its number and the reason."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _UNREADABLE):
            raise Unreadable(f"line {self._number}: {error}") from error


def _entry(row: dict[str, Any]) -> Entry:
    # A record that is missing is exported with an empty MAC, so that its link still shows.
    mac = bytes.fromhex(text_of(row, "mac")) or None
    body = base64.b64decode(text_of(row, "body"), validate=True) if mac else None
    return Entry(whole_of(row, "seq"), UUID(text_of(row, "id")), body, mac, bytes.fromhex(text_of(row, "hash")))


def _record(body: bytes) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(body)
    UUID(text_of(record, "id"))
    return record
