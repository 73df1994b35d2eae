"""Reading the trail: list it, check it, take it away."""

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dragoman.blocking import Threads
from dragoman.context import Caller, report_progress
from dragoman.errors import InvalidInput
from dragoman.infra.db import Scope
from dragoman.operations import Page, page
from dragoman.services.audit.chain import ChainCheck, Entry, Head, key_id, mac_fits, names_itself
from dragoman.services.audit.comparison import RowComparison
from dragoman.services.audit.heads import HeadsFile
from dragoman.services.audit.models import (
    AuditRecord,
    ChainProblem,
    Export,
    ExportedRecord,
    ExportedRow,
    ExportPart,
    ExportTrail,
    ListRecords,
    Outcome,
    RowDisagreement,
    Verification,
    VerifyTrail,
)
from dragoman.services.audit.promises import Promises
from dragoman.services.audit.store import AuditStore, Shown
from dragoman.services.audit.trail import column, shown_of

# How much is checked before other requests have their turn.
_STEP = 1_000
# Of the time that a check takes, so much is for the links.
_LINKS_PERCENT = 60.0
# The place in a tail where the records with a seal begin.
_SEALED_TAIL = "sealed"
# The first version of records that are found by resource and action.
_FOUND_BY_RESOURCE = 3
_FIRST_ID, _LAST_ID = UUID(int=0), UUID(int=2**128 - 1)
# How far the time in an id may be from the time in its record.
_SLACK_MS = 60_000
_CHANGED = "this record was changed in the database and cannot be read"


class AuditService:
    """Answers for the caller's own tenant."""

    def __init__(
        self,
        store: AuditStore,
        rows: RowComparison,
        *,
        public_key: Ed25519PublicKey,
        mac_key: bytes,
        heads_file: Path | None,
        threads: Threads,
    ) -> None:
        self._store = store
        self._rows = rows
        self._public_key = public_key
        self._mac_key = mac_key
        self._heads = HeadsFile(heads_file) if heads_file else None
        self._threads = threads

    async def list_records(self, caller: Caller, wanted: ListRecords) -> Page[AuditRecord]:
        """Newest first."""
        filters: dict[str, Any] = {
            "operation": wanted.operation,
            "subject": wanted.subject,
            "actor": wanted.actor,
            "action": wanted.action,
            "resource": wanted.resource,
        }
        filters = {name: column(text) for name, text in filters.items() if text is not None}
        if wanted.outcome is not None:
            filters["outcome"] = wanted.outcome.value
        before = wanted.cursor or _LAST_ID
        if wanted.since is not None:
            filters |= {"since": wanted.since, "after_id": _first_id(wanted.since, -_SLACK_MS)}
        if wanted.until is not None:
            filters["until"] = wanted.until
            before = min(before, _first_id(wanted.until, _SLACK_MS))
        filters["before_id"] = before
        rows = await self._store.page(Scope(caller.tenant), wanted.limit + 1, filters)
        return page([_record(row) for row in rows], wanted.limit)

    async def verify(self, caller: Caller, given: VerifyTrail) -> Verification:
        """Follow the chain from its first record to its signed head, and hold it against every head kept outside.

        Then hold the rows of the database against what the records say of them, all as of one moment.
        """
        scope = Scope(caller.tenant)
        trusted = await self._threads.run(caller.tenant, self._heads.list, caller.tenant) if self._heads else []
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
        promises = Promises(self._rows.complete)
        try:
            async with self._store.snapshot(scope):
                last, head = await self._store.end(scope)
                await self._follow(scope, check, promises, last)
                check.finish(head)
                if head is not None and not self._is_signed(head):
                    check.report(head.seq, "the head's signature is not this installation's")
                unsealed = await self._check_unsealed(scope, check, promises)
                await report_progress(f"{check.seq + unsealed} records are checked; now the rows", _LINKS_PERCENT)
                rows = await self._rows.compare(scope, promises)
        finally:
            promises.close()
        return Verification(
            ok=not check.broken and not promises.broken,
            records=check.seq,
            unsealed=unsealed,
            head=head.to_json() if head else None,
            public_key=self._public_key.public_bytes_raw().hex(),
            trusted_heads=check.trusted,
            problems=[ChainProblem(seq=p.seq, reason=p.reason, record_id=p.record_id) for p in check.problems],
            rows=rows,
            disagreements=[
                RowDisagreement(table=d.table, id=d.key, column=d.column, chain=d.chain, row=d.row, seq=d.seq)
                for d in promises.disagreements
            ],
        )

    async def export(self, caller: Caller, wanted: ExportTrail) -> Export:
        """Return the next piece of the records up to a head, of those that came after it, or of the rows."""
        scope = Scope(caller.tenant)
        # First, so that nothing in the piece is older than it says.
        made_at = datetime.now(UTC)
        last, head = await self._store.end(scope)
        if wanted.until is not None:
            last = min(last, wanted.until)
            head = await self._store.find_head(scope, wanted.until) or head
        piece = partial(
            Export,
            tenant=caller.tenant,
            public_key=self._public_key.public_bytes_raw().hex(),
            made_at=made_at,
            tables=self._rows.complete,
            head=head.to_json() if head else None,
        )
        match wanted.part:
            case ExportPart.RECORDS:
                links = await self._store.chain(scope, wanted.after, last, wanted.limit)
                more = bool(links) and links[-1]["seq"] < last
                return piece(records=_exported(links), next_after=links[-1]["seq"] if more else None)
            case ExportPart.TAIL:
                return await self._export_tail(scope, piece, wanted)
            case ExportPart.ROWS:
                rows, broken, next_cursor = await self._rows.page(scope, wanted.cursor)
                return piece(
                    rows=[ExportedRow(name=name, columns=columns) for name, columns in rows.items()],
                    broken=[
                        RowDisagreement(table=table, id=key, column=column, chain=should, row=found, seq=None)
                        for table, key, column, should, found in broken
                    ],
                    next_cursor=next_cursor,
                )

    async def _export_tail(self, scope: Scope, piece: "partial[Export]", wanted: ExportTrail) -> Export:
        """Those without a seal first: one that is sealed meanwhile then comes twice, and none is left out."""
        if wanted.cursor != _SEALED_TAIL:
            records = await self._store.unsealed(scope, _read_place(wanted.cursor), wanted.limit)
            more = len(records) == wanted.limit
            return piece(records=_exported(records), next_cursor=str(records[-1]["id"]) if more else _SEALED_TAIL)
        links = await self._store.chain(scope, wanted.after, 2**63 - 1, wanted.limit)
        if len(links) < wanted.limit:
            return piece(records=_exported(links))
        return piece(records=_exported(links), next_after=links[-1]["seq"], next_cursor=_SEALED_TAIL)

    async def _follow(self, scope: Scope, check: ChainCheck, promises: Promises, last: int) -> None:
        # From the very first number there can be: none may stand before link 1.
        after = -(2**63)
        rows = await self._store.chain(scope, after, last, _STEP)
        while rows:
            # PostgreSQL reads the next ones while these are checked.
            ahead = asyncio.create_task(self._store.chain(scope, rows[-1]["seq"], last, _STEP))
            try:
                await self._threads.run(scope.tenant, _follow, check, promises, rows)
                rows = await ahead
            finally:
                await _ended(ahead)
            await report_progress(f"{check.seq} of {last} records", _LINKS_PERCENT * check.seq / max(last, 1))

    async def _check_unsealed(self, scope: Scope, check: ChainCheck, promises: Promises) -> int:
        count, after = 0, _FIRST_ID
        while rows := await self._store.unsealed(scope, after, _STEP):
            await self._threads.run(
                scope.tenant, _check_unsealed, check, promises, rows, self._mac_key, scope.tenant or _FIRST_ID
            )
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


def _follow(check: ChainCheck, promises: Promises, rows: Sequence[Any]) -> None:
    """Follow some links, and take over what their records say of rows."""
    for row in rows:
        entry = Entry(row["seq"], row["record_id"], row["body"], row["mac"], row["hash"])
        broken = check.broken
        check.follow(entry)
        if check.broken != broken:
            continue  # what it says of rows is worth nothing
        fields = _fields(row)
        if not _agrees(row, fields):
            check.report(entry.seq, "what is listed of the record is not what the record says", entry)
        promises.take(entry.seq, fields)


def _check_unsealed(check: ChainCheck, promises: Promises, rows: Sequence[Any], mac_key: bytes, tenant: UUID) -> None:
    for row in rows:
        entry = Entry(check.seq + 1, row["id"], row["body"], row["mac"], b"")
        fields = _fields(row)
        if not mac_fits(mac_key, row["body"], row["mac"]):
            check.report(entry.seq, "a record without a seal is forged or was changed: its MAC does not fit", entry)
        elif not names_itself(tenant, row["id"], row["body"]) or not _agrees(row, fields):
            check.report(entry.seq, "a record without a seal is not the one that it says it is", entry)
        elif row["passed_over"]:
            check.report(entry.seq, "a record has lost its link: the sealer is past it", entry)
        else:
            promises.take(None, fields)


async def _ended(task: "asyncio.Task[Any]") -> None:
    """Let nothing go on with the connection of a unit of work that ends."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task])


def _exported(rows: Sequence[Any]) -> list[ExportedRecord]:
    """Return links with their records, or records that have no link."""
    return [
        ExportedRecord(
            seq=row.get("seq"),
            id=row["record_id"] if "seq" in row else row["id"],
            body=base64.b64encode(row["body"] or b"").decode(),
            mac=(row["mac"] or b"").hex(),
            hash=row["hash"].hex() if "seq" in row else "",
        )
        for row in rows
    ]


def _read_place(cursor: str) -> UUID:
    """Return where a tail goes on.

    Raises:
        InvalidInput: there is no such place.
    """
    try:
        return UUID(cursor) if cursor else _FIRST_ID
    except ValueError:
        raise InvalidInput.of("cursor", "must be the next_cursor of the piece before") from None


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


def _fields(row: Any) -> dict[str, Any]:
    """Return a body as it reads; nothing where it does not."""
    try:
        fields = orjson.loads(row["body"])
    except ValueError:
        return {}
    return cast("dict[str, Any]", fields) if isinstance(fields, dict) else {}


def _agrees(row: Any, fields: dict[str, Any]) -> bool:
    try:
        listed = shown_of(fields)
    except ValueError:
        return False
    found = Shown(
        row["at"], row["operation"], row["outcome"], row["subject"], row["resource"], row["action"], row["about"]
    )  # fmt: skip
    if fields.get("v", 1) < _FOUND_BY_RESOURCE:
        listed, found = (replace(one, resource=None, action=None, about=None) for one in (listed, found))
    return listed == found


def _first_id(at: datetime, slack_ms: int) -> UUID:
    """The smallest id of that moment, give or take."""
    return UUID(int=min(max(0, int(at.timestamp() * 1000) + slack_ms), 2**48 - 1) << 80)
