"""Sealing: records become links of their tenant's chain, in an order that no late commit can upset.

A record that committed late has a small transaction id and may appear after larger ones were read. So a pass takes only
records of transactions that are older than every running one; nothing can then still appear among them.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from uuid import UUID

import orjson
import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prometheus_client import Counter, Gauge

from dragoman.errors import UpstreamUnavailable
from dragoman.services.audit.chain import Head, genesis, key_id, link
from dragoman.services.audit.store import Pending, SealStore

_LOG = structlog.get_logger(__name__)
_BATCH = 5_000
_ROTATE_BYTES = 10_000_000
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
        sweep_s: float = 1.0,
        linger_s: float = 0.1,
        alarm_s: float = 5.0,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._key = key
        self._key_id = key_id(key.public_key().public_bytes_raw())
        self._heads_file = heads_file
        self._sweep_s = sweep_s
        self._linger_s = linger_s
        self._alarm_s = alarm_s
        self._clock = clock
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Something was committed that wants a seal."""
        self._woken.set()

    async def run(self) -> None:
        """Seal until cancelled; a database that is away is waited for."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), self._sweep_s)
            self._woken.clear()
            try:
                await self.seal()
                await self.measure()
            except UpstreamUnavailable as error:
                _LOG.warning("audit.seal_postponed", reason=str(error))
            except Exception:  # noqa: BLE001 - a worker loop: it must outlive whatever a pass runs into
                _LOG.exception("audit.seal_failed")
            # Records that are written close together share one commit and one signature.
            await asyncio.sleep(self._linger_s)

    async def seal(self) -> int:
        """Seal everything that is settled now, and say how many records that was; 0 when another process is at it."""
        total = 0
        while True:
            sealed = await self._pass()
            total += sealed
            if sealed < _BATCH:
                return total

    async def measure(self) -> float:
        """The age of the oldest record that waits, in seconds; too old is an alarm."""
        oldest = await self._store.oldest_pending()
        lag_s = max(0.0, (self._clock() - oldest).total_seconds()) if oldest else 0.0
        _LAG.set(lag_s)
        if lag_s > self._alarm_s:
            _LOG.error("audit.seal_lag", lag_s=round(lag_s, 1))
        return lag_s

    async def _pass(self) -> int:
        async with self._store.unit():
            if not await self._store.try_lock():
                return 0
            pending, below = await self._store.pending(_BATCH)
            if not pending:
                return 0
            links, heads = await self._chain(pending)
            await self._store.add(links, heads, below)
        _SEALED.inc(len(links))
        self._publish(heads)
        return len(links)

    async def _chain(self, pending: list[Pending]) -> tuple[list[tuple[UUID, int, UUID, bytes]], list[Head]]:
        # Sorting is stable: within a tenant the order of the pass is kept.
        by_tenant = {tenant: list(group) for tenant, group in groupby(sorted(pending, key=_tenant), key=_tenant)}
        ends = await self._store.last_links(list(by_tenant))
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

    def _publish(self, heads: list[Head]) -> None:
        """Keep the heads outside the database too: only against such a copy can a cut at the end be found."""
        if self._heads_file is None:
            return
        lines = b"".join(orjson.dumps(head.to_json()) + b"\n" for head in heads)
        try:
            self._heads_file.parent.mkdir(parents=True, exist_ok=True)
            with self._heads_file.open("ab") as file:
                file.write(lines)
                full = file.tell() > _ROTATE_BYTES
            if full:
                self._heads_file.replace(self._heads_file.with_suffix(".old"))
        except OSError as error:
            _LOG.error("audit.heads_not_published", reason=error.strerror)


def _tenant(pending: Pending) -> UUID:
    return pending.tenant
