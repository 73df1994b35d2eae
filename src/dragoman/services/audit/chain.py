"""What the audit chain is made of, and how it is followed: the standard library alone.

    record   canonical JSON bytes (RFC 8785), with an HMAC under a key outside the database
    link n   sha256( "dragoman-audit-link-1" 0 | link n-1 | n as 8 bytes | record id | sha256(body) | mac )
    link 0   sha256( "dragoman-audit-genesis-1" 0 | tenant id )
    head     Ed25519 over ( "dragoman-audit-head-1" 0 | tenant id | n as 8 bytes | link n | time of sealing )
    rows     what a record says of the database rows that were written with it: table/key, and columns as they must be
             from then on; documents and long texts as "sha256:" and the hash of their canonical JSON

Editing, removing, inserting or reordering a sealed record breaks a link. Cutting the end off breaks none: that is found
only against a head that was kept elsewhere, so the verifier takes some and says so when it was given none.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

_LINK = b"dragoman-audit-link-1\x00"
_GENESIS = b"dragoman-audit-genesis-1\x00"
_HEAD = b"dragoman-audit-head-1\x00"
# Who broke a chain has broken all of it, perhaps; that many places show where to begin.
_MOST_PROBLEMS = 100
_LARGEST = 2**63 - 1
# A head has its time before it is committed.
_COMMITTED_WITHIN = timedelta(seconds=10)


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
            tenant=UUID(text_of(data, "tenant")),
            seq=whole_of(data, "seq"),
            hash=bytes.fromhex(text_of(data, "hash")),
            sealed_at=text_of(data, "sealed_at"),
            key_id=text_of(data, "key_id"),
            signature=bytes.fromhex(text_of(data, "signature")),
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
    speaks against the chain only if it is `signed`; else against the place where it was kept. Where it is known when
    the links were `taken_at`, heads that were sealed later say nothing of them: they are `newer`.
    """

    def __init__(
        self,
        tenant: UUID,
        *,
        mac_key: bytes | None = None,
        trusted: Iterable[Head] = (),
        signed: Callable[[Head], bool] = lambda _: True,
        taken_at: str | None = None,
    ) -> None:
        self.tenant = tenant
        self._mac_key = mac_key
        self._signed = signed
        self._trusted: dict[int, list[Head]] = {}
        for head in trusted:
            if head.tenant == tenant:
                self._trusted.setdefault(head.seq, []).append(head)
        self._taken_at = datetime.fromisoformat(taken_at) if taken_at is not None else None
        if self._taken_at is not None and self._taken_at.tzinfo is None:
            raise ValueError("the time has no zone")
        self.trusted = len(self._trusted)
        self.newer: list[Head] = []
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
                if self._signed(trusted) and self._is_newer(trusted):
                    self.newer.append(trusted)
                    continue
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
        if not names_itself(self.tenant, entry.record_id, entry.body):
            return "the record is not the one that it says it is: it names another id or tenant"
        return None

    def _is_newer(self, head: Head) -> bool:
        """Check whether the links were read before this head was there: it is, a moment after its time of sealing."""
        if self._taken_at is None:
            return False
        return datetime.fromisoformat(head.sealed_at) + _COMMITTED_WITHIN > self._taken_at

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


def key_id(public_key: bytes) -> str:
    """How a head names the key that signed it."""
    return hashlib.sha256(public_key).hexdigest()[:16]


def text_of(row: dict[str, Any], name: str) -> str:
    """Return a string of a JSON object.

    Raises:
        ValueError: it has none.
    """
    if not isinstance(value := row.get(name), str):
        raise ValueError(f"{name} is missing or is not a string")  # noqa: TRY004 - all that is wrong is a ValueError
    return value


def whole_of(row: dict[str, Any], name: str) -> int:
    """Return a whole number of a JSON object, from 1 on.

    Raises:
        ValueError: it has none.
    """
    value = row.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _LARGEST:
        raise ValueError(f"{name} is missing or is not a whole number from 1 on")
    return value
