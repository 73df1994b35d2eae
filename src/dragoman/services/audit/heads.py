"""Heads kept outside the database: only against such a copy can a cut at the end of a chain be found.

One file of JSON lines, added to by every process of this machine. A head vouches for all links before it, so that the
newest of a tenant is enough, and the file is cut down to those when it has grown. Where a number went back, two heads
may tell of two different chains: both are kept for ever.
"""

import fcntl
import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import orjson
import structlog

from dragoman.services.audit.chain import Head

_LOG = structlog.get_logger(__name__)
_COMPACT_BYTES = 10_000_000


class HeadsFile:
    """Appends and reads; everything blocks, so call it in a thread."""

    def __init__(self, path: Path, *, compact_bytes: int = _COMPACT_BYTES) -> None:
        self._path = path
        self._compact_bytes = compact_bytes
        self._compact_at = compact_bytes

    def append(self, heads: Iterable[Head]) -> None:
        """Keep them, on disk when this returns.

        Raises:
            OSError: they could not be written.
        """
        with self._locked():
            self._write(heads)

    def complete(self, newest: Iterable[Head]) -> list[Head]:
        """Add those of a database's newest heads that are not here yet; return ours where the database has gone back.

        Raises:
            OSError: they could not be written.
        """
        with self._locked():
            ours = _newest(self._read())
            theirs = {head.tenant: head for head in newest}
            self._write(
                [head for head in theirs.values() if head.seq > (known.seq if (known := ours.get(head.tenant)) else 0)]
            )
        return [head for head in ours.values() if head.seq > (found.seq if (found := theirs.get(head.tenant)) else 0)]

    def list(self, tenant: UUID) -> list[Head]:
        """A tenant's, oldest first."""
        return list(self._read(tenant))

    def _write(self, heads: Iterable[Head]) -> None:
        lines = b"".join(orjson.dumps(head.to_json()) + b"\n" for head in heads)
        if not lines:
            return
        with self._path.open("ab") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        if size > self._compact_at:
            self._compact()

    def _compact(self) -> None:
        kept: dict[tuple[UUID, int, bytes], Head] = {}
        last: dict[UUID, Head] = {}
        for head in self._read():
            before = last.get(head.tenant)
            if before is not None and head.seq <= before.seq and head.hash != before.hash:
                kept[_key(before)] = before
                kept[_key(head)] = head
            last[head.tenant] = head
        kept |= {_key(head): head for head in (*_newest(self._read()).values(), *last.values())}
        fresh = self._path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.writelines(orjson.dumps(head.to_json()) + b"\n" for head in kept.values())
            file.flush()
            os.fsync(file.fileno())
            self._compact_at = max(self._compact_bytes, 2 * file.tell())
        fresh.replace(self._path)

    def _read(self, tenant: UUID | None = None) -> Iterator[Head]:
        needle = str(tenant).encode() if tenant else b""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            for number, line in enumerate(file, 1):
                if needle in line:
                    try:
                        yield Head.from_json(orjson.loads(line))
                    except (ValueError, AttributeError):  # torn by a crash; the next head says it all again
                        _LOG.warning("audit.head_unreadable", line=number)

    @contextmanager
    def _locked(self) -> Generator[None]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _newest(heads: Iterable[Head]) -> dict[UUID, Head]:
    newest: dict[UUID, Head] = {}
    for head in heads:
        if head.tenant not in newest or head.seq >= newest[head.tenant].seq:
            newest[head.tenant] = head
    return newest


def _key(head: Head) -> tuple[UUID, int, bytes]:
    return head.tenant, head.seq, head.hash
