"""Reading the trail: list it, check it, take it away."""

import asyncio
import base64
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dragoman.context import Caller
from dragoman.infra.db import Scope
from dragoman.operations import Page, page
from dragoman.services.audit.chain import ChainCheck, Entry, Head, key_id, mac_fits, names_itself
from dragoman.services.audit.heads import HeadsFile
from dragoman.services.audit.models import (
    AuditRecord,
    ChainProblem,
    Export,
    ExportedRecord,
    ExportTrail,
    ListRecords,
    Outcome,
    Verification,
    VerifyTrail,
)
from dragoman.services.audit.store import AuditStore, Shown
from dragoman.services.audit.trail import column, shown

# How much is checked before other requests have their turn.
_STEP = 1_000
_FIRST_ID, _LAST_ID = UUID(int=0), UUID(int=2**128 - 1)
# How far the time in an id may be from the time in its record.
_SLACK_MS = 60_000
_CHANGED = "this record was changed in the database and cannot be read"


class AuditService:
    """Answers for the caller's own tenant."""

    def __init__(
        self, store: AuditStore, *, public_key: Ed25519PublicKey, mac_key: bytes, heads_file: Path | None
    ) -> None:
        self._store = store
        self._public_key = public_key
        self._mac_key = mac_key
        self._heads = HeadsFile(heads_file) if heads_file else None

    async def list_records(self, caller: Caller, wanted: ListRecords) -> Page[AuditRecord]:
        """Newest first."""
        after = _first_id(wanted.since, -_SLACK_MS) if wanted.since else _FIRST_ID
        before = _first_id(wanted.until, _SLACK_MS) if wanted.until else _LAST_ID
        rows = await self._store.page(
            Scope(caller.tenant),
            wanted.limit + 1,
            (after, min(before, wanted.cursor or _LAST_ID)),
            wanted.operation and column(wanted.operation),
            wanted.subject and column(wanted.subject),
            wanted.outcome and wanted.outcome.value,
            wanted.since,
            wanted.until,
        )
        return page([_record(row) for row in rows], wanted.limit)

    async def verify(self, caller: Caller, given: VerifyTrail) -> Verification:
        """Follow the chain from its first record to its signed head, and hold it against every head kept outside."""
        scope = Scope(caller.tenant)
        trusted = await asyncio.to_thread(self._heads.list, caller.tenant) if self._heads else []
        if given.head is not None:
            trusted.append(Head(caller.tenant, given.head.seq, bytes.fromhex(given.head.hash), "", "", b""))
        # An empty signature is that of the head which the caller gave: it has the caller's word.
        check = ChainCheck(
            caller.tenant,
            mac_key=self._mac_key,
            trusted=trusted,
            signed=lambda head: not head.signature or self._is_signed(head),
        )
        # Read after the heads outside, which are published late, and before the links: a chain that grows meanwhile
        # must seem neither cut nor to run past its end.
        last, head = await self._store.end(scope)
        await self._follow(scope, check, last)
        check.finish(head)
        if head is not None and not self._is_signed(head):
            check.report(head.seq, "the head's signature is not this installation's")
        unsealed = await self._check_unsealed(scope, check)
        return Verification(
            ok=not check.broken,
            records=check.seq,
            unsealed=unsealed,
            head=head.to_json() if head else None,
            public_key=self._public_key.public_bytes_raw().hex(),
            trusted_heads=check.trusted,
            problems=[ChainProblem(seq=p.seq, reason=p.reason, record_id=p.record_id) for p in check.problems],
        )

    async def export(self, caller: Caller, wanted: ExportTrail) -> Export:
        """The next piece of the chain, up to the newest signed head, or up to the one at `until`."""
        scope = Scope(caller.tenant)
        last, head = await self._store.end(scope)
        if wanted.until is not None:
            last = min(last, wanted.until)
            head = await self._store.find_head(scope, wanted.until) or head
        rows = await self._store.chain(scope, wanted.after, last, wanted.limit)
        return Export(
            tenant=caller.tenant,
            public_key=self._public_key.public_bytes_raw().hex(),
            records=[
                ExportedRecord(
                    seq=row["seq"],
                    id=row["record_id"],
                    body=base64.b64encode(row["body"] or b"").decode(),
                    mac=(row["mac"] or b"").hex(),
                    hash=row["hash"].hex(),
                )
                for row in rows
            ],
            head=head.to_json() if head else None,
            next_after=rows[-1]["seq"] if rows and rows[-1]["seq"] < last else None,
        )

    async def _follow(self, scope: Scope, check: ChainCheck, last: int) -> None:
        # From the very first number there can be: none may stand before link 1.
        after = -(2**63)
        while rows := await self._store.chain(scope, after, last, _STEP):
            for row in rows:
                entry = Entry(row["seq"], row["record_id"], row["body"], row["mac"], row["hash"])
                broken = check.broken
                check.follow(entry)
                if check.broken == broken and not _agrees(row):
                    check.report(entry.seq, "what is listed of the record is not what the record says", entry)
            after = rows[-1]["seq"]

    async def _check_unsealed(self, scope: Scope, check: ChainCheck) -> int:
        count, after = 0, _FIRST_ID
        while rows := await self._store.unsealed(scope, after, _STEP):
            for row in rows:
                entry = Entry(check.seq + 1, row["id"], row["body"], row["mac"], b"")
                if not mac_fits(self._mac_key, row["body"], row["mac"]):
                    check.report(
                        entry.seq, "a record without a seal is forged or was changed: its MAC does not fit", entry
                    )
                elif not names_itself(scope.tenant or _FIRST_ID, row["id"], row["body"]) or not _agrees(row):
                    check.report(entry.seq, "a record without a seal is not the one that it says it is", entry)
                elif row["passed_over"]:
                    check.report(entry.seq, "a record has lost its link: the sealer is past it", entry)
            count += len(rows)
            after = rows[-1]["id"]
        return count

    def _is_signed(self, head: Head) -> bool:
        if head.key_id != key_id(self._public_key.public_bytes_raw()):
            return False
        try:
            self._public_key.verify(head.signature, head.signed_bytes())
        except InvalidSignature:
            return False
        return True


def _record(row: Any) -> AuditRecord:
    try:
        return AuditRecord.model_validate({**orjson.loads(row["body"]), "id": row["id"], "seq": row["seq"]})
    except (ValueError, TypeError):
        # Someone changed it. The list must go on, most of all now.
        unknown = dict.fromkeys(("principal_type", "credential", "door", "request_id"), "")
        columns = {name: row[name] for name in ("id", "seq", "at", "operation", "subject")}
        return AuditRecord.model_construct(**unknown, **columns, outcome=_outcome(row["outcome"]), reason=_CHANGED)


def _outcome(text: str) -> Any:
    """Return the outcome; or the text itself, which whoever changed the record may have changed too."""
    try:
        return Outcome(text)
    except ValueError:
        return text


def _agrees(row: Any) -> bool:
    try:
        return shown(row["body"]) == Shown(row["at"], row["operation"], row["outcome"], row["subject"])
    except ValueError:
        return False


def _first_id(at: datetime, slack_ms: int) -> UUID:
    """The smallest id of that moment, give or take."""
    return UUID(int=min(max(0, int(at.timestamp() * 1000) + slack_ms), 2**48 - 1) << 80)
