"""Writes of several requests in one transaction: what comes while one is under way goes into the next.

Each write has its own idempotency key, its own rows and its own audit record, as if it were alone. All writes of a
transaction are of one operation and one tenant, so that row-level security holds for the transaction as a whole.
"""

import asyncio
from collections.abc import Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from dragoman.context import Caller
from dragoman.errors import IdempotencyConflict
from dragoman.infra.batching import Batcher
from dragoman.infra.db import Database, IdempotencyKeys, Scope, scope_of
from dragoman.operations import AnyOperation, Grouped, Output
from dragoman.services.audit.models import Outcome
from dragoman.services.audit.trail import AuditTrail, Entry

# Two, so that a transaction which waits for a lock does not hold up all the others of its tenant.
_LANES: Final = 2


@dataclass(slots=True)
class Write:
    """One write: what it takes, what `Grouped.plan` made of that, and what its record says.

    The context is that of its request. A write that is abandoned before it is committed does not happen.
    """

    caller: Caller
    plan: Any
    key: str | None
    digest: bytes
    resource: str | None
    policy: str
    context: Context = field(default_factory=copy_context)
    abandoned: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """The output of a write; `replayed` when an earlier use of its key gave it, as JSON."""

    output: Any
    replayed: bool = False


class _Abandoned(Exception):
    """The sender of a write has gone; the others are written without it."""


class GroupedWrites:
    """Collects the writes of each operation and tenant."""

    def __init__(self, db: Database, keys: IdempotencyKeys, trail: AuditTrail) -> None:
        self._db = db
        self._keys = keys
        self._trail = trail
        self._groups: dict[tuple[str, Scope], Batcher[Write, Written | IdempotencyConflict]] = {}

    async def add(self, operation: AnyOperation, grouped: Grouped[Any, Any], write: Write) -> Written:
        """Return the output once key, rows and audit record are committed.

        Cancelling it rolls the write back, unless its commit is under way.

        Raises:
            IdempotencyConflict: the first use of the key had another input.
            DragomanError: it could not be written, and nothing of it was.
        """
        scope = scope_of(write.caller)
        name = (operation.name, scope)
        group = self._groups.get(name)
        if group is None:
            call = partial(self._write_all, operation, grouped, scope)
            group = self._groups[name] = Batcher(call, lanes=_LANES, key=_key)
        try:
            written = await group.put(write)
        except asyncio.CancelledError:
            write.abandoned = True
            raise
        finally:
            if group.idle:
                self._groups.pop(name, None)
        if isinstance(written, IdempotencyConflict):
            raise written
        return written

    async def _write_all(
        self, operation: AnyOperation, grouped: Grouped[Any, Any], scope: Scope, writes: Sequence[Write]
    ) -> Sequence[Written | IdempotencyConflict]:
        _check_wanted(writes)
        results: list[Written | IdempotencyConflict | None] = [None] * len(writes)
        async with self._db.unit(scope):
            fresh = await self._claim(scope, writes, results)
            if fresh:
                outputs = await grouped.write(writes[fresh[0]].caller, [writes[place].plan for place in fresh])
                await self._keep(operation, scope, [writes[place] for place in fresh], outputs)
                for place, output in zip(fresh, outputs, strict=True):
                    results[place] = Written(output)
            _check_wanted(writes)
        return [result for result in results if result is not None]

    async def _claim(
        self, scope: Scope, writes: Sequence[Write], results: list[Written | IdempotencyConflict | None]
    ) -> list[int]:
        """Claim the keys; return the places of the writes to be done, and put in what the others gave before."""
        keyed = [(place, write) for place, write in enumerate(writes) if write.key is not None]
        claims = [(write.caller.subject, write.key or "", write.digest) for _, write in keyed]
        claimed = await self._keys.claim_all(scope, claims) if claims else set[tuple[str, str]]()
        for place, write in keyed:
            if (write.caller.subject, key := write.key or "") not in claimed:
                try:
                    output = await self._keys.find(write.caller, key, write.digest)
                    results[place] = Written(output, replayed=True) if output is not None else IdempotencyConflict(key)
                except IdempotencyConflict as conflict:
                    results[place] = conflict
        return [place for place, result in enumerate(results) if result is None]

    async def _keep(
        self, operation: AnyOperation, scope: Scope, writes: Sequence[Write], outputs: Sequence[Output]
    ) -> None:
        kept = [
            (write.caller.subject, write.key, output.without_secrets().model_dump(mode="json"))
            for write, output in zip(writes, outputs, strict=True)
            if write.key is not None
        ]
        if kept:
            await self._keys.keep_all(scope, kept)
        lines = [
            write.context.run(
                self._trail.write,
                write.caller,
                Entry(
                    operation.name,
                    Outcome.DONE,
                    resource=str(output_id) if (output_id := getattr(output, "id", None)) else write.resource,
                    input_sha256=write.digest.hex(),
                    policy=write.policy,
                ),
            )
            for write, output in zip(writes, outputs, strict=True)
        ]
        await self._trail.add_all(scope, lines)


def _key(write: Write) -> tuple[str, str] | None:
    return (write.caller.subject, write.key) if write.key is not None else None


def _check_wanted(writes: Sequence[Write]) -> None:
    if any(write.abandoned for write in writes):
        raise _Abandoned
