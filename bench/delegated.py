"""A node that performs delegated tasks, in this process, on a PostgreSQL of its own."""

import asyncio
import gc
import os
import resource
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import asyncpg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.harness import data_dir
from tests.services.tasks.crew import NoGrants, caller_of

from bench.process import tree_cpu_s
from dragoman.app.delegation import Deciders, build_delegation
from dragoman.app.engine import EngineCore, build_engine
from dragoman.context import Caller
from dragoman.infra.config import load_settings
from dragoman.infra.db import CORE_ROLE, Database, Scope, migrate
from dragoman.infra.embedded import EmbeddedServices
from dragoman.infra.ids import new_id
from dragoman.infra.jobs import JobGroup
from dragoman.infra.telemetry import Metrics, SecurityEvents
from dragoman.operations import Handlers, Input
from dragoman.services.audit.sealer import Sealer
from dragoman.services.audit.store import AuditStore, Line, SealStore
from dragoman.services.audit.trail import AuditTrail
from dragoman.services.tasks.access import Action, TaskAccess
from dragoman.services.tasks.actions.actors import Actors
from dragoman.services.tasks.actions.envelope import Envelope
from dragoman.services.tasks.actions.ports import Bound, Judgment, Route, Target
from dragoman.services.tasks.actions.service import DelegationService
from dragoman.services.tasks.shapes import SubmitTask
from dragoman.services.workers.protocol import Assignment, Capability, Performed

_MAC_KEY = b"k" * 32
# So many clients at once; what they hand over in one moment shares a commit.
_CLIENTS = 500
_METRICS = Metrics()
# Events are written by statements that write more: what leaves them out must stand before the table.
_NO_HISTORY = """
CREATE OR REPLACE FUNCTION left_out() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE OR REPLACE TRIGGER left_out BEFORE INSERT ON task_events FOR EACH ROW EXECUTE FUNCTION left_out()"""


@dataclass(frozen=True, slots=True)
class Without:
    """What is left out, to see what it costs."""

    audit: bool = False
    effects: bool = False
    history: bool = False


@dataclass(frozen=True, slots=True)
class Took:
    """How fast, and the CPU of one task: in this process, and in PostgreSQL."""

    per_s: float
    cpu_us: float
    beside_us: float


class Nothing(Input):
    """What a trivial task takes."""

    name: str


class Trivial:
    """A worker with nothing to do, which notes that it means to and that it did."""

    name = "trivial"
    capabilities = (Capability("bench.nothing", "Nothing at all", Nothing, at_once=1000),)

    def __init__(self, *, effects: bool) -> None:
        self._effects = effects

    async def perform(self, assignment: Assignment) -> Performed:
        """Do nothing, once."""
        if not self._effects:
            return Performed({"done": True})
        return Performed(await assignment.effects.once("do", {"name": "nothing"}, self._do))

    async def _do(self, key: str) -> dict[str, Any]:
        return {"done": True, "key": key}


class Willing:
    """Everything may be done, by the one who does nothing."""

    def __init__(self, worker: Trivial) -> None:
        self._route = Route(worker, worker.capabilities[0])

    async def find(self, caller: Caller, action: str) -> Route | None:
        """The worker."""
        del caller, action
        return self._route

    async def judge(self, caller: Caller, envelope: Envelope, capability: Capability, **_: Any) -> Judgment:
        """Yes."""
        del caller, envelope, capability
        return Judgment()

    async def bind(self, caller: Caller, target: Target) -> Bound:
        """Know nothing of it."""
        del caller, target
        return Bound()

    async def show(self, caller: Caller, target: Target, *, since: str | None) -> dict[str, Any]:
        """Show nothing of it."""
        del caller, target, since
        return {}


class Silent(AuditTrail):
    """A trail that keeps nothing."""

    def rows(self, lines: Sequence[Line], places: Sequence[int] | None = None) -> str:
        """None of them."""
        del lines, places
        return "[]"


class Node:
    """Hands over and performs; the sealer runs beside it, as in a server."""

    def __init__(self, core: EngineCore, service: DelegationService, db: Database) -> None:
        self._core = core
        self._service = service
        self._jobs: JobGroup | None = None
        self._db = db
        self._number = 0
        self.caller = caller_of()

    async def submit(self) -> float:
        """Hand one more over; the seconds until it was durable."""
        self._number += 1
        began = perf_counter()
        await self._service.submit(self.caller, SubmitTask.model_validate({"envelope": envelope(self._number)}))
        return perf_counter() - began

    async def fill(self, number: int) -> Took:
        """Hand over so many, with nobody to perform them."""

        async def client(share: int) -> None:
            for _ in range(share):
                await self.submit()

        with _Meter(number) as meter:
            await asyncio.gather(*(client(number // _CLIENTS) for _ in range(_CLIENTS)))
        return meter.took()

    async def drain(self, number: int) -> Took:
        """Perform all that waits."""
        with _Meter(number) as meter:
            self._start()
            await self._emptied()
        await self._stop()
        return meter.took()

    def _start(self) -> None:
        self._jobs = JobGroup(_METRICS.jobs)
        self._jobs.add(*self._core.jobs())
        self._jobs.start()

    async def _stop(self) -> None:
        if self._jobs is not None:
            await self._jobs.stop()
        await self._core.stop()

    async def _emptied(self) -> None:
        while await self._db.find(Scope(), "SELECT 1 FROM task_queue LIMIT 1"):  # noqa: ASYNC110 - it is elsewhere
            await asyncio.sleep(0.02)

    async def arrive(self, per_s: int, seconds: float) -> tuple[list[float], Took]:
        """Hand over at a fixed rate and perform meanwhile; latencies from the moment each was meant to come."""
        number, loop, waits = int(per_s * seconds), asyncio.get_running_loop(), list[float]()

        async def one(due: float) -> None:
            await self.submit()
            waits.append(loop.time() - due)

        with _Meter(number) as meter:
            self._start()
            began, sent = loop.time(), list[asyncio.Task[None]]()
            for place in range(number):
                due = began + place / per_s
                if (early := due - loop.time()) > 0:
                    await asyncio.sleep(early)
                sent.append(asyncio.create_task(one(due)))
            await asyncio.gather(*sent)
            await self._emptied()
        await self._stop()
        return waits, meter.took()


def _permits(caller: Caller, action: Action) -> bool:
    del caller, action
    return True


async def _is_revoked(caller: Caller) -> bool:
    del caller
    return False


class _Meter:
    def __init__(self, number: int) -> None:
        self._number = number

    def __enter__(self) -> "_Meter":
        self._began = perf_counter(), _own_cpu_s(), tree_cpu_s(os.getpid())
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = perf_counter(), _own_cpu_s(), tree_cpu_s(os.getpid())

    def took(self) -> Took:
        seconds, own_s, beside_s = (after - before for before, after in zip(self._began, self._ended, strict=True))
        return Took(self._number / seconds, own_s / self._number * 1e6, beside_s / self._number * 1e6)


def _own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def envelope(number: int) -> dict[str, Any]:
    """A whole one, with a key of its own."""
    return {
        "envelope_version": "1",
        "actor": {"id": "ada", "type": "human"},
        "action": "bench.nothing",
        "resource": {"type": "document", "id": "d-1", "version": "3"},
        "matter": {"id": "m-1", "title": "Bench"},
        "idempotency_key": f"key-{number}",
        "request": {"correlation_id": "bench"},
        "input": {"name": "nothing"},
    }


async def execute(url: str, *statements: str) -> None:
    """Run them as the superuser."""
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@asynccontextmanager
async def postgres() -> AsyncGenerator[str]:
    """The address of an embedded PostgreSQL with our schema."""
    at = data_dir()
    embedded = EmbeddedServices(at, postgres=True, valkey=False)
    await embedded.start()
    try:
        await migrate(embedded.database_url)
        yield embedded.database_url
    finally:
        await embedded.stop()
        await asyncio.to_thread(shutil.rmtree, at.parent, ignore_errors=True)


@asynccontextmanager
async def node(url: str, *, without: Without | None = None) -> AsyncGenerator[Node]:
    """A node on this database, as a server has it but for what is left out."""
    db, core_db = Database(url), Database(url, role=CORE_ROLE, size=12, by_index=True)
    without = without or Without()
    await execute(url, _NO_HISTORY if without.history else "DROP TRIGGER IF EXISTS left_out ON task_events")
    sealer = Sealer(SealStore(core_db), key=Ed25519PrivateKey.generate(), heads_file=None, mac_key=_MAC_KEY)
    trail = (Silent if without.audit else AuditTrail)(
        AuditStore(core_db), core_db, mac_key=_MAC_KEY, new_id=new_id, wake=sealer.wake
    )
    willing = Willing(Trivial(effects=not without.effects))
    deciders = Deciders(Actors(NoGrants()), willing, willing, willing)
    security = SecurityEvents(_METRICS)
    access = TaskAccess(_permits, is_revoked=_is_revoked, find_operation={}.get, security=security)
    core = build_engine(load_settings({}), core_db, url, trail, _METRICS.tasks)
    service = build_delegation(Handlers(), (db, core_db), core, trail, deciders, access).service
    await db.start()
    await core_db.start()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)  # as `dragoman serve` has it
    jobs = JobGroup(_METRICS.jobs)
    try:
        async with sealer.running() as sealing:
            jobs.add(*sealing)
            async with jobs:
                yield Node(core, service, core_db)
    finally:
        await core_db.stop()
        await db.stop()
