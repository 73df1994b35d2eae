"""What the audit chain is made of, and how it is checked: the standard library alone.

This file is also the standalone verifier: `python chain.py export.jsonl` needs neither this package nor the database.
It ends with 0 when all fits, with 1 when something does not, with 2 when a file cannot be read as what it should be.

    record   canonical JSON bytes (RFC 8785), with an HMAC under a key outside the database
    link n   sha256( "dragoman-audit-link-1" 0 | link n-1 | n as 8 bytes | record id | sha256(body) | mac )
    link 0   sha256( "dragoman-audit-genesis-1" 0 | tenant id )
    head     Ed25519 over ( "dragoman-audit-head-1" 0 | tenant id | n as 8 bytes | link n | time of sealing )

Editing, removing, inserting or reordering a sealed record breaks a link. Cutting the end off breaks none: that is found
only against a head that was kept elsewhere, so the verifier takes some and says so when it was given none.
"""

import argparse
import base64
import hashlib
import hmac
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

_LINK = b"dragoman-audit-link-1\x00"
_GENESIS = b"dragoman-audit-genesis-1\x00"
_HEAD = b"dragoman-audit-head-1\x00"
# Who broke a chain has broken all of it, perhaps; that many places show where to begin.
_MOST_PROBLEMS = 100
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Entry:
    """One sealed record, as stored."""

    seq: int
    record_id: UUID
    body: bytes | None
    mac: bytes | None
    hash: bytes


@dataclass(frozen=True)
class Head:
    """The signed end of a chain at some moment."""

    tenant: UUID
    seq: int
    hash: bytes
    sealed_at: str
    key_id: str
    signature: bytes

    def signed_bytes(self) -> bytes:
        """What the signature is over."""
        return _HEAD + self.tenant.bytes + self.seq.to_bytes(8, "big") + self.hash + self.sealed_at.encode()

    def to_json(self) -> dict[str, object]:
        """As published and exported."""
        return {
            "tenant": str(self.tenant),
            "seq": self.seq,
            "hash": self.hash.hex(),
            "sealed_at": self.sealed_at,
            "key_id": self.key_id,
            "signature": self.signature.hex(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Head":
        """Back from `to_json`.

        Raises:
            ValueError: it is no head.
        """
        return cls(
            tenant=UUID(_text(data, "tenant")),
            seq=_whole(data, "seq"),
            hash=bytes.fromhex(_text(data, "hash")),
            sealed_at=_text(data, "sealed_at"),
            key_id=_text(data, "key_id"),
            signature=bytes.fromhex(_text(data, "signature")),
        )


@dataclass(frozen=True)
class Problem:
    """The first place where something does not fit, and what."""

    seq: int
    reason: str
    record_id: str | None = None


def genesis(tenant: UUID) -> bytes:
    """Link 0: where a tenant's chain begins."""
    return hashlib.sha256(_GENESIS + tenant.bytes).digest()


def link(previous: bytes, seq: int, record_id: UUID, body: bytes, mac: bytes) -> bytes:
    """Link n."""
    content = hashlib.sha256(body).digest()
    return hashlib.sha256(_LINK + previous + seq.to_bytes(8, "big") + record_id.bytes + content + mac).digest()


class ChainCheck:
    """Follows a chain entry by entry; knows after each whether all fits so far.

    `trusted` are heads kept outside the database: at their place the chain must have their hash. One that disagrees
    speaks against the chain only if it is `signed`; else against the place where it was kept.
    """

    def __init__(
        self,
        tenant: UUID,
        *,
        mac_key: bytes | None = None,
        trusted: Iterable[Head] = (),
        signed: Callable[[Head], bool] = lambda _: True,
    ) -> None:
        self._tenant = tenant
        self._mac_key = mac_key
        self._signed = signed
        self._trusted: dict[int, list[Head]] = {}
        for head in trusted:
            if head.tenant == tenant:
                self._trusted.setdefault(head.seq, []).append(head)
        self.trusted = len(self._trusted)
        self.seq = 0
        self.hash = genesis(tenant)
        self.broken = 0
        self.problems: list[Problem] = []

    def follow(self, entry: Entry) -> None:
        """Check the next entry; after a problem it goes on from what is stored, to find further ones."""
        expected = self.seq + 1
        if entry.seq < expected:
            self.report(entry.seq, f"this link does not belong here: link {expected} comes next", entry)
            return
        if entry.seq > expected:
            missing = f"link {expected} is" if entry.seq == expected + 1 else f"links {expected} to {entry.seq - 1} are"
            self.report(expected, f"{missing} missing")
        elif (reason := self._reason(entry)) is not None:
            self.report(entry.seq, reason, entry)
        self.seq, self.hash = entry.seq, entry.hash
        for head in self._trusted.pop(entry.seq, ()):
            if head.hash != entry.hash:
                self._disagree(head, "the chain was rewritten: it does not have the hash of the trusted head")

    def finish(self, head: Head | None) -> None:
        """Check the end: the head that is stored with the chain, and the trusted heads beyond it."""
        if head is None:
            if self.seq:
                self.report(self.seq, "the chain has no signed head")
        elif head.seq != self.seq:
            self.report(
                min(self.seq, head.seq) + 1, f"the signed head names link {head.seq}, the chain ends at {self.seq}"
            )
        elif head.hash != self.hash:
            self.report(self.seq, "the chain was rewritten: it does not have the hash of its signed head")
        for seq in sorted(self._trusted):
            for trusted in self._trusted[seq]:
                cut = f"the chain was cut: a trusted head names link {seq}, the chain ends at {self.seq}"
                self._disagree(trusted, cut)

    def report(self, seq: int, reason: str, entry: Entry | None = None) -> None:
        """Note what does not fit; all are counted, the first hundred are kept."""
        self.broken += 1
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(Problem(seq, reason, str(entry.record_id) if entry else None))

    def _reason(self, entry: Entry) -> str | None:
        if entry.body is None or entry.mac is None:
            return "the record of this link is missing"
        if self._mac_key is not None and not mac_fits(self._mac_key, entry.body, entry.mac):
            return "the record was changed: its MAC does not fit"
        if link(self.hash, entry.seq, entry.record_id, entry.body, entry.mac) != entry.hash:
            return "the link is broken: its hash does not follow from the one before"
        if not names_itself(self._tenant, entry.record_id, entry.body):
            return "the record is not the one that it says it is: it names another id or tenant"
        return None

    def _disagree(self, head: Head, reason: str) -> None:
        kept_badly = "a head kept outside was changed: its signature is not the key's"
        self.report(head.seq, reason if self._signed(head) else kept_badly)


def mac_fits(key: bytes, body: bytes, mac: bytes) -> bool:
    """Whether the body is as it was written by someone with the key."""
    return hmac.compare_digest(hmac.digest(key, body, "sha256"), mac)


def names_itself(tenant: UUID, record_id: UUID, body: bytes) -> bool:
    """Whether a body is that of this record: a genuine one, copied elsewhere, still has a MAC that fits.

    Canonical JSON has these bytes only as a key with its value: inside a string the quotes would be escaped.
    """
    return b'"id":"%s"' % str(record_id).encode() in body and b'"tenant":"%s"' % str(tenant).encode() in body


# Ed25519 (RFC 8032), verification only: a few lines, so that an auditor needs nothing but Python.
_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P
_Point = tuple[int, int, int, int]


def _recover_x(y: int, sign: int) -> int | None:
    x2 = (y * y - 1) * pow(_D * y * y + 1, _P - 2, _P) % _P
    x = pow(x2, (_P + 3) // 8, _P)
    if (x * x - x2) % _P:
        x = x * pow(2, (_P - 1) // 4, _P) % _P
    if (x * x - x2) % _P or (x == 0 and sign):
        return None
    return _P - x if x & 1 != sign else x


def _decode(data: bytes) -> _Point | None:
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    x = _recover_x(y, sign) if y < _P else None
    return None if x is None else (x, y, 1, x * y % _P)


def _add(p: _Point, q: _Point) -> _Point:
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % _P, (p[1] + p[0]) * (q[1] + q[0]) % _P
    c, d = 2 * p[3] * q[3] * _D % _P, 2 * p[2] * q[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _multiply(scalar: int, point: _Point) -> _Point:
    total: _Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = _add(total, point)
        point, scalar = _add(point, point), scalar >> 1
    return total


def verify_signature(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the signature is the key's over the message."""
    if len(public_key) != 32 or len(signature) != 64:
        return False
    base_y = 4 * pow(5, _P - 2, _P) % _P
    base_x = _recover_x(base_y, 0) or 0
    key, r = _decode(public_key), _decode(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if key is None or r is None or s >= _L:
        return False
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + public_key + message).digest(), "little") % _L
    left = _multiply(s, (base_x, base_y, 1, base_x * base_y % _P))
    right = _add(r, _multiply(challenge, key))
    return (left[0] * right[2] - right[0] * left[2]) % _P == 0 and (left[1] * right[2] - right[1] * left[2]) % _P == 0


def key_id(public_key: bytes) -> str:
    """How a head names the key that signed it."""
    return hashlib.sha256(public_key).hexdigest()[:16]


class Unreadable(Exception):
    """A file is not what it should be; the message says which line, and why."""


def check_export(lines: Iterable[bytes], *, public_key: bytes | None, trusted: list[Head]) -> ChainCheck:
    """Check an export, line by line, in little memory; the check says what it found.

    Raises:
        Unreadable: it is no export.
    """
    rows = read_rows(lines)
    nothing: tuple[int, dict[str, Any]] = (1, {})
    number, first = next(rows, nothing)
    if first.get("type") != "export":
        raise Unreadable(f"line {number}: this is not an audit export, its first line is not of type export")
    with _At(number):
        tenant, key = UUID(_text(first, "tenant")), bytes.fromhex(_text(first, "public_key"))
    signer = public_key or key

    def signed(head: Head) -> bool:
        return head.key_id == key_id(signer) and verify_signature(signer, head.signed_bytes(), head.signature)

    check, head = ChainCheck(tenant, trusted=trusted, signed=signed), None
    for number, row in rows:
        with _At(number):
            if head is not None:
                raise ValueError("nothing may follow the head")
            if row.get("type") == "head":
                head = Head.from_json(row)
            elif row.get("type") == "record":
                check.follow(_entry(row))
            else:
                raise ValueError("its type is neither record nor head")
    check.finish(head)
    if key != signer:
        check.report(check.seq, "the export names another public key than the one that was given")
    if head is not None and (head.tenant != tenant or not signed(head)):
        check.report(head.seq, "the head's signature is not the key's")
    return check


def read_rows(lines: Iterable[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
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
    for number, row in read_rows(lines):
        if row.get("type", "head") == "head":
            with _At(number):
                heads.append(Head.from_json(row))
    return heads


class _At:
    """Turns whatever is wrong with a line into its number and the reason."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (ValueError, RecursionError)):
            raise Unreadable(f"line {self._number}: {error}") from error


def _entry(row: dict[str, Any]) -> Entry:
    # A record that is missing is exported with an empty MAC, so that its link still shows.
    mac = bytes.fromhex(_text(row, "mac")) or None
    body = base64.b64decode(_text(row, "body"), validate=True) if mac else None
    return Entry(_whole(row, "seq"), UUID(_text(row, "id")), body, mac, bytes.fromhex(_text(row, "hash")))


def _text(row: dict[str, Any], name: str) -> str:
    if not isinstance(value := row.get(name), str):
        raise ValueError(f"{name} is missing or is not a string")  # noqa: TRY004 - all that is wrong is a ValueError
    return value


def _whole(row: dict[str, Any], name: str) -> int:
    value = row.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _LARGEST:
        raise ValueError(f"{name} is missing or is not a whole number from 1 on")
    return value


def main() -> int:
    """Check the export that the command line names."""
    parser = argparse.ArgumentParser(
        description="Verify an audit export of Dragoman, offline.",
        epilog="Exit codes: 0 all fits, 1 something does not, 2 a file cannot be read.",
    )
    parser.add_argument("export", help="the file that `dragoman audit export` wrote, or - for standard input")
    parser.add_argument(
        "--public-key", type=_public_key, help="the signer's Ed25519 key in hex, from a source you trust"
    )
    parser.add_argument(
        "--head",
        type=Path,
        action="append",
        default=[],
        help="heads kept elsewhere: a copy of heads.jsonl, or an earlier export; may be repeated",
    )
    given = parser.parse_args()
    source: str | Path = ""
    try:
        trusted: list[Head] = []
        for source in given.head:
            with Path(source).open("rb") as lines:
                trusted += read_heads(lines)
        source = given.export
        with sys.stdin.buffer if given.export == "-" else Path(given.export).open("rb") as lines:
            check = check_export(lines, public_key=given.public_key, trusted=trusted)
    except (OSError, Unreadable) as error:
        print(f"cannot read {source}: {error}", file=sys.stderr)  # noqa: T201 - this is a command
        return 2
    _print(check, has_key=given.public_key is not None)
    return 1 if check.broken else 0


def _public_key(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise argparse.ArgumentTypeError("it must be 64 hex digits")
    return key


def _print(check: ChainCheck, *, has_key: bool) -> None:
    for problem in check.problems:
        print(f"BROKEN at link {problem.seq}: {problem.reason}")  # noqa: T201 - this is a command
    if check.broken > len(check.problems):
        print(f"and {check.broken - len(check.problems)} more")  # noqa: T201
    if not check.broken:
        against = f", held against {check.trusted} trusted heads" if check.trusted else ""
        print(f"OK: {check.seq} records, unbroken and signed{against}")  # noqa: T201
    if not has_key:
        print("note: no --public-key was given; the signature was checked against the key in the export itself")  # noqa: T201
    if not check.trusted:
        print("note: no --head of this tenant was given; a cut at the end cannot be found without one")  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
