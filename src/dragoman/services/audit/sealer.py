"""Sealing: records become links of their tenant's chain, in an order that no late commit can upset.

A record that committed late has a small transaction id and may appear after larger ones were read. So a pass takes only
records of transactions that are older than every running one; nothing can then still appear among them. A writer that
stays open, anywhere in the cluster, therefore holds sealing up, and the alarm says so.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from time import monotonic
from uuid import UUID

import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prometheus_client import Counter, Gauge

from dragoman.blocking import Threads
from dragoman.infra.jobs import Job
from dragoman.services.audit.chain import Head, genesis, key_id, link, mac_fits, names_itself
from dragoman.services.audit.heads import HeadsFile
from dragoman.services.audit.store import Pending, SealStore

_LOG = structlog.get_logger(__name__)
_BATCH = 5_000
_COMPLETE_EVERY_S = 60.0
_REMIND_S = 30.0
_SEALED = Counter("dragoman_audit_sealed_total", "Audit records sealed into their chain.")
_LAG = Gauge(
    "dragoman_audit_seal_lag_seconds", "Age of the oldest audit record not sealed.", multiprocess_mode="livemax"
)


class Sealer:
    """Runs in every process; at any moment one of them seals, for all tenants."""

    def __init__(
        self,
        store: SealStore,
        *,
        key: Ed25519PrivateKey,
        heads_file: Path | None,
        mac_key: bytes,
        sweep_s: float = 1.0,
        linger_s: float = 0.1,
        alarm_s: float = 5.0,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._key = key
        self._key_id = key_id(key.public_key().public_bytes_raw())
        self._mac_key = mac_key
        self._heads = HeadsFile(heads_file) if heads_file else None
        self._sweep_s = sweep_s
        self._linger_s = linger_s
        self._alarm_s = alarm_s
        self._clock = clock
        self._woken = asyncio.Event()
        # Nobody else works here: a seal waits for no tenant.
        self._threads = Threads("seal", 1)
        self._complete_at = 0.0
        self._remind_at: float | None = None

    def wake(self) -> None:
        """Something was committed that wants a seal."""
        self._woken.set()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Sequence[Job]]:
        """Give the job that seals; what is left at the end is sealed on leaving."""
        # Records that are written close together share one commit and one signature.
        yield [
            Job(
                name="audit_sealing",
                work=self._catch_up,
                every_s=self._sweep_s,
                wake=self._woken,
                gather_s=self._linger_s,
            )
        ]
        await self.seal()

    async def _catch_up(self) -> None:
        await self.seal()
        await self.measure()
        if monotonic() >= self._complete_at:
            await self.complete()

    async def seal(self) -> int:
        """Seal everything that is settled now, and say how many records that was; 0 when another process is at it."""
        total, more = 0, True
        while more:
            sealed, more = await self._pass()
            total += sealed
        return total

    async def measure(self) -> float:
        """The age of the oldest record that waits, in seconds; too old is an alarm."""
        oldest = await self._store.oldest_pending()
        lag_s = max(0.0, (self._clock() - oldest).total_seconds()) if oldest else 0.0
        _LAG.set(lag_s)
        if lag_s <= self._alarm_s:
            if self._remind_at is not None:
                _LOG.info("audit.seal_recovered")
            self._remind_at = None
        elif self._remind_at is None or monotonic() >= self._remind_at:
            _LOG.error("audit.seal_lag", lag_s=round(lag_s, 1))
            self._remind_at = monotonic() + _REMIND_S
        return lag_s

    async def complete(self) -> None:
        """Publish what is not: heads that a crash came before, and those that other machines signed."""
        self._complete_at = monotonic() + _COMPLETE_EVERY_S
        if self._heads is None:
            return
        try:
            ahead = await self._threads.run(None, self._heads.complete, await self._store.newest_heads())
        except OSError as error:
            _LOG.error("audit.heads_not_published", reason=error.strerror)
            return
        for head in ahead:
            _LOG.error("audit.chain_cut", tenant=str(head.tenant), published_seq=head.seq)

    async def _pass(self) -> tuple[int, bool]:
        async with self._store.unit():
            if not await self._store.try_lock():
                return 0, False
            pending, watermark, more = await self._store.pending(_BATCH)
            genuine = [record for record in pending if self._is_genuine(record)]
            links, heads = await self._chain(genuine)
            if links:
                await self._store.add(links, heads)
            if watermark is not None:
                await self._store.move(watermark)
        _SEALED.inc(len(links))
        await self._publish(heads)
        return len(links), more

    def _is_genuine(self, record: Pending) -> bool:
        """Whether we wrote it: a seal under a forgery would vouch for it. What is left out, `verify` names."""
        if mac_fits(self._mac_key, record.body, record.mac) and names_itself(record.tenant, record.id, record.body):
            return True
        _LOG.error("audit.forged_record", tenant=str(record.tenant), record=str(record.id))
        return False

    async def _chain(self, pending: list[Pending]) -> tuple[list[tuple[UUID, int, UUID, bytes]], list[Head]]:
        # Sorting is stable: within a tenant the order of the pass is kept.
        by_tenant = {tenant: list(group) for tenant, group in groupby(sorted(pending, key=_tenant), key=_tenant)}
        ends = await self._store.last_links(list(by_tenant)) if by_tenant else {}
        sealed_at = self._clock().isoformat(timespec="microseconds")
        links: list[tuple[UUID, int, UUID, bytes]] = []
        heads: list[Head] = []
        for tenant, records in by_tenant.items():
            seq, last = ends.get(tenant, (0, genesis(tenant)))
            for record in records:
                seq += 1
                last = link(last, seq, record.id, record.body, record.mac)
                links.append((tenant, seq, record.id, last))
            unsigned = Head(tenant, seq, last, sealed_at, self._key_id, b"")
            heads.append(Head(tenant, seq, last, sealed_at, self._key_id, self._key.sign(unsigned.signed_bytes())))
        return links, heads

    async def _publish(self, heads: list[Head]) -> None:
        # After the commit: a head of a chain that was rolled back would accuse the true one for ever.
        if self._heads is None or not heads:
            return
        try:
            await self._threads.run(None, self._heads.append, heads)
        except OSError as error:
            _LOG.error("audit.heads_not_published", reason=error.strerror)
            self._complete_at = 0.0


def _tenant(pending: Pending) -> UUID:
    return pending.tenant
