"""Reading the trail: list it, check it, take it away."""

import base64
import hmac
from pathlib import Path

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dragoman.context import Caller
from dragoman.infra.db import Scope
from dragoman.operations import Page, page
from dragoman.services.audit.chain import ChainCheck, Head, Problem, key_id
from dragoman.services.audit.models import (
    AuditRecord,
    ChainProblem,
    Export,
    ExportedRecord,
    ExportTrail,
    ListRecords,
    Verification,
    VerifyTrail,
)
from dragoman.services.audit.store import AuditStore

_STEP = 2_000
_MOST_PROBLEMS = 100


class AuditService:
    """Answers for the caller's own tenant."""

    def __init__(
        self, store: AuditStore, *, public_key: Ed25519PublicKey, mac_key: bytes, heads_file: Path | None
    ) -> None:
        self._store = store
        self._public_key = public_key
        self._mac_key = mac_key
        self._heads_file = heads_file

    async def list_records(self, caller: Caller, wanted: ListRecords) -> Page[AuditRecord]:
        """Newest first."""
        rows = await self._store.page(
            Scope(caller.tenant),
            wanted.limit + 1,
            wanted.cursor,
            wanted.operation,
            wanted.subject,
            wanted.outcome and wanted.outcome.value,
            wanted.since,
            wanted.until,
        )
        return page(
            [AuditRecord.model_validate({**orjson.loads(row["body"]), "seq": row["seq"]}) for row in rows], wanted.limit
        )

    async def verify(self, caller: Caller, given: VerifyTrail) -> Verification:
        """Follow the chain from its first record to its signed head, and hold it against every head kept outside."""
        scope = Scope(caller.tenant)
        trusted = self._published_heads(caller)
        if given.head is not None:
            trusted.append(Head(caller.tenant, given.head.seq, bytes.fromhex(given.head.hash), "", "", b""))
        check = ChainCheck(caller.tenant, mac_key=self._mac_key, trusted=trusted)
        # Read first: a chain that grows while it is followed must not seem to run past its end.
        head = await self._store.head(scope)
        end = head.seq if head else 0
        while check.seq < end and (entries := await self._store.chain(scope, check.seq, min(_STEP, end - check.seq))):
            for entry in entries:
                check.follow(entry)
        check.finish(head)
        problems = check.problems + self._check_signature(head)
        unsealed = await self._store.unsealed(scope)
        problems += [
            Problem(check.seq + 1, "an unsealed record was changed: its MAC does not fit", str(row["id"]))
            for row in unsealed
            if not hmac.compare_digest(hmac.digest(self._mac_key, row["body"], "sha256"), row["mac"])
        ]
        return Verification(
            ok=not problems,
            records=check.seq,
            unsealed=len(unsealed),
            head=head.to_json() if head else None,
            public_key=self._public_key.public_bytes_raw().hex(),
            trusted_heads=len({trusted_head.seq for trusted_head in trusted}),
            problems=[
                ChainProblem(seq=p.seq, reason=p.reason, record_id=p.record_id) for p in problems[:_MOST_PROBLEMS]
            ],
        )

    async def export(self, caller: Caller, wanted: ExportTrail) -> Export:
        """The next piece of the chain, up to the newest signed head."""
        scope = Scope(caller.tenant)
        head = await self._store.head(scope)
        entries = [
            entry
            for entry in await self._store.chain(scope, wanted.after, wanted.limit)
            if head and entry.seq <= head.seq
        ]
        more = bool(entries and head and entries[-1].seq < head.seq)
        return Export(
            tenant=caller.tenant,
            public_key=self._public_key.public_bytes_raw().hex(),
            records=[
                ExportedRecord(
                    seq=entry.seq,
                    id=entry.record_id,
                    body=base64.b64encode(entry.body or b"").decode(),
                    mac=(entry.mac or b"").hex(),
                    hash=entry.hash.hex(),
                )
                for entry in entries
            ],
            head=head.to_json() if head else None,
            next_after=entries[-1].seq if more else None,
        )

    def _check_signature(self, head: Head | None) -> list[Problem]:
        if head is None:
            return []
        if head.key_id != key_id(self._public_key.public_bytes_raw()):
            return [Problem(head.seq, "the head is signed by another key than this installation's")]
        try:
            self._public_key.verify(head.signature, head.signed_bytes())
        except InvalidSignature:
            return [Problem(head.seq, "the head's signature is not this installation's")]
        return []

    def _published_heads(self, caller: Caller) -> list[Head]:
        if self._heads_file is None:
            return []
        heads: list[Head] = []
        for path in (self._heads_file.with_suffix(".old"), self._heads_file):
            if path.exists():
                needle = str(caller.tenant).encode()
                heads += [
                    Head.from_json(orjson.loads(line)) for line in path.read_bytes().splitlines() if needle in line
                ]
        return heads
