"""What the audit chain is made of, and how it is checked: the standard library alone.

This file is also the standalone verifier: `python chain.py export.jsonl` needs neither this package nor the database.

    record   canonical JSON bytes (RFC 8785), with an HMAC under a key outside the database
    link n   sha256( "dragoman-audit-link-1" 0 | link n-1 | n as 8 bytes | record id | sha256(body) | mac )
    link 0   sha256( "dragoman-audit-genesis-1" 0 | tenant id )
    head     Ed25519 over ( "dragoman-audit-head-1" 0 | tenant id | n as 8 bytes | link n | time of sealing )

Editing, removing, inserting or reordering a sealed record breaks a link. Cutting the end off breaks none: that is found
only against a head that was kept elsewhere, so the verifier takes one and says so when it was given none.
"""

import argparse
import base64
import hashlib
import hmac
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

_LINK = b"dragoman-audit-link-1\x00"
_GENESIS = b"dragoman-audit-genesis-1\x00"
_HEAD = b"dragoman-audit-head-1\x00"


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
    def from_json(cls, data: dict[str, object]) -> "Head":
        """Back from `to_json`."""
        return cls(
            tenant=UUID(str(data["tenant"])),
            seq=int(str(data["seq"])),
            hash=bytes.fromhex(str(data["hash"])),
            sealed_at=str(data["sealed_at"]),
            key_id=str(data["key_id"]),
            signature=bytes.fromhex(str(data["signature"])),
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

    `trusted` are heads kept outside the database: at their place the chain must have their hash.
    """

    def __init__(self, tenant: UUID, *, mac_key: bytes | None = None, trusted: Iterable[Head] = ()) -> None:
        self._mac_key = mac_key
        self._trusted = {head.seq: head for head in trusted if head.tenant == tenant}
        self.seq = 0
        self.hash = genesis(tenant)
        self.problems: list[Problem] = []

    def follow(self, entry: Entry) -> None:
        """Check the next entry; after a problem it goes on from what is stored, to find further ones."""
        expected = self.seq + 1
        if entry.seq != expected:
            missing = f"{expected}" if entry.seq == expected + 1 else f"{expected} to {entry.seq - 1}"
            self._report(expected, f"link {missing} is missing")
        elif entry.body is None or entry.mac is None:
            self._report(entry.seq, "the record of this link is missing", entry)
        elif self._mac_key is not None and not hmac.compare_digest(
            hmac.digest(self._mac_key, entry.body, "sha256"), entry.mac
        ):
            self._report(entry.seq, "the record was changed: its MAC does not fit", entry)
        elif link(self.hash, entry.seq, entry.record_id, entry.body, entry.mac) != entry.hash:
            self._report(entry.seq, "the link is broken: its hash does not follow from the one before", entry)
        self.seq, self.hash = entry.seq, entry.hash
        trusted = self._trusted.pop(entry.seq, None)
        if trusted is not None and trusted.hash != entry.hash:
            self._report(entry.seq, "the chain was rewritten: it does not have the hash of the trusted head", entry)

    def finish(self, head: Head | None) -> None:
        """Check the end: the head that is stored with the chain, and the trusted heads beyond it."""
        if self.seq and (head is None or (head.seq, head.hash) != (self.seq, self.hash)):
            self._report(self.seq, "the chain does not end at its signed head")
        for seq in sorted(self._trusted):
            self._report(seq, f"the chain was cut: a trusted head names link {seq}, the chain ends at {self.seq}")

    def _report(self, seq: int, reason: str, entry: Entry | None = None) -> None:
        self.problems.append(Problem(seq, reason, str(entry.record_id) if entry else None))


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


def check_export(lines: Iterable[str], *, public_key: bytes | None, trusted: list[Head]) -> tuple[int, list[Problem]]:
    """Check an export: how many records it has, and what does not fit."""
    rows: Iterator[dict[str, str]] = (json.loads(line) for line in lines if line.strip())
    first = next(rows, None)
    if first is None or first.get("type") != "export":
        return 0, [Problem(0, "this is not an audit export: its first line is not of type export")]
    tenant = UUID(first["tenant"])
    check, head = ChainCheck(tenant, trusted=trusted), None
    for row in rows:
        if row["type"] == "head":
            head = Head.from_json(dict(row))
        else:
            body, mac = base64.b64decode(row["body"]), bytes.fromhex(row["mac"])
            check.follow(Entry(int(row["seq"]), UUID(row["id"]), body, mac, bytes.fromhex(row["hash"])))
    check.finish(head)
    key = public_key or bytes.fromhex(first["public_key"])
    if head is not None and (head.tenant != tenant or not verify_signature(key, head.signed_bytes(), head.signature)):
        check.problems.append(Problem(head.seq, "the head's signature is not the key's"))
    return check.seq, check.problems


def main() -> int:
    """Check the export that the command line names; 0 when all fits, 1 when not."""
    parser = argparse.ArgumentParser(description="Verify an audit export of Dragoman, offline.")
    parser.add_argument("export", type=Path, help="the file that `dragoman audit export` wrote")
    parser.add_argument("--public-key", help="the signer's Ed25519 key in hex, from a source you trust")
    parser.add_argument(
        "--head", type=Path, action="append", default=[], help="a head kept elsewhere (JSON, one per line)"
    )
    given = parser.parse_args()
    trusted = [
        Head.from_json(json.loads(line)) for path in given.head for line in path.read_text().splitlines() if line
    ]
    with given.export.open(encoding="utf-8") as file:
        count, problems = check_export(
            file, public_key=bytes.fromhex(given.public_key) if given.public_key else None, trusted=trusted
        )
    for problem in problems:
        print(f"BROKEN at link {problem.seq}: {problem.reason}")  # noqa: T201 - this is a command
    if not problems:
        print(f"OK: {count} records, unbroken and signed")  # noqa: T201
    if not given.public_key:
        print("note: no --public-key was given; the signature was checked against the key in the export itself")  # noqa: T201
    if not given.head:
        print("note: no --head was given; a cut at the end cannot be found without one")  # noqa: T201
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
