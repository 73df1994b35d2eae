from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from dragoman.context import Caller
from dragoman.infra.auth.vault import Vault
from dragoman.infra.breaker import Breakers
from dragoman.infra.db import Database, Scope, scope_of
from dragoman.infra.ids import new_id
from dragoman.infra.outbound import Allowed, Clients, Upstream
from dragoman.infra.telemetry.metrics import Metrics
from dragoman.services.tasks.actions.errors import NotDeclared, TooManyWorkers, WorkerNotFound
from dragoman.services.workers import models as m
from dragoman.services.workers.permissions import CapabilityPermissions
from dragoman.services.workers.registry import CapabilityRegistry
from dragoman.services.workers.remote import RemoteWorkers
from dragoman.services.workers.service import MOST_WORKERS, WorkerService
from dragoman.services.workers.store import WorkerStore
from tests.services.tasks.crew import caller_of, hand

pytestmark = pytest.mark.anyio
SEND = "signature.send"


class CountingStore(WorkerStore):
    """Counts how often it is asked."""

    asked = 0

    async def find_version(self, scope: Scope) -> int:
        self.asked += 1
        return await super().find_version(scope)


@dataclass
class Process:
    """What one process of a server has of the registry, with a clock that a test sets."""

    db: Database
    now_s: float = 1000.0
    store: CountingStore = field(init=False)
    registry: CapabilityRegistry = field(init=False)
    service: WorkerService = field(init=False)
    permissions: CapabilityPermissions = field(init=False)

    def __post_init__(self) -> None:
        clients, vault = Clients(Breakers(metrics=Metrics()), Allowed()).of_tenants(Upstream.WORKER), Vault(b"k" * 32)
        self.store = CountingStore(self.db)
        remote = RemoteWorkers(clients, vault, own_input={}.get)
        self.registry = CapabilityRegistry(
            self.store, [hand("signature", SEND)], open_remote=remote.open, clock=lambda: self.now_s
        )
        self.service = WorkerService(
            self.store,
            self.registry,
            guard=clients.guard,
            vault=vault,
            after_commit=self.db.after_commit,
            new_id=new_id,
        )
        self.permissions = CapabilityPermissions(self.store, self.registry, after_commit=self.db.after_commit)

    async def performer(self, caller: Caller, action: str = SEND) -> str | None:
        route = await self.registry.find(caller, action)
        return route.worker.name if route else None


@pytest.fixture
async def db(url: str) -> AsyncIterator[Database]:
    database = Database(url, size=4)
    yield database
    await database.stop()


def partner(**fields: object) -> m.RegisterWorker:
    given = {"name": "partner", "kind": "a2a", "url": "https://agent.example.com", "actions": [{"action": SEND}]}
    return m.RegisterWorker.model_validate(given | fields)


async def test_a_second_look_asks_nothing_of_the_database(db: Database) -> None:
    process, caller = Process(db), caller_of()

    found = [await process.performer(caller) for _ in range(1000)]

    assert set(found) == {"signature"}
    assert process.store.asked == 1


async def test_a_decision_is_seen_at_once_by_the_process_that_took_it(db: Database) -> None:
    process, caller = Process(db), caller_of()
    await process.performer(caller)

    decision = await process.permissions.deny(caller, m.DenyCapability(action=SEND, worker="signature"))

    assert decision.performed_by is None
    assert await process.performer(caller) is None


async def test_a_decision_is_seen_by_other_processes_within_a_second(db: Database) -> None:
    here, there, caller = Process(db), Process(db), caller_of()
    assert await there.performer(caller) == "signature"
    await here.service.register(caller, partner())

    await here.permissions.allow(caller, m.AllowCapability(action=SEND, worker="a2a:partner", prefer=True))

    assert await there.performer(caller) == "signature"
    there.now_s += 1.0
    assert await there.performer(caller) == "a2a:partner"


async def test_a_decision_that_is_rolled_back_was_never_taken(db: Database) -> None:
    process, caller = Process(db), caller_of()

    with suppress(ZeroDivisionError):
        async with db.unit(scope_of(caller)):
            await process.permissions.deny(caller, m.DenyCapability(action=SEND))
            raise ZeroDivisionError

    assert await process.performer(caller) == "signature"


async def test_tenants_decide_for_themselves_alone(db: Database) -> None:
    process, acme, rival = Process(db), caller_of(), caller_of()
    await process.service.register(acme, partner())
    await process.permissions.deny(acme, m.DenyCapability(action=SEND))

    assert await process.performer(rival) == "signature"
    with pytest.raises(WorkerNotFound):
        await process.permissions.allow(rival, m.AllowCapability(action=SEND, worker="a2a:partner"))
    with pytest.raises(WorkerNotFound):
        await process.service.remove(rival, m.WorkerRef(worker="a2a:partner"))


async def test_preference_moves_from_one_worker_to_the_other(db: Database) -> None:
    process, caller = Process(db), caller_of()
    for name in ("alpha", "beta"):
        await process.service.register(caller, partner(name=name))
        await process.permissions.allow(caller, m.AllowCapability(action=SEND, worker=f"a2a:{name}", prefer=True))

    assert await process.performer(caller) == "a2a:beta"
    listed = (await process.permissions.list(caller, m.ListCapabilities())).items
    assert {one.worker: one.preferred for one in listed} == {"signature": False, "a2a:alpha": False, "a2a:beta": True}


async def test_nothing_can_be_allowed_that_the_worker_does_not_declare(db: Database) -> None:
    process, caller = Process(db), caller_of()
    await process.service.register(caller, partner())

    with pytest.raises(NotDeclared):
        await process.permissions.allow(caller, m.AllowCapability(action="document.shred", worker="a2a:partner"))


async def test_a_worker_that_comes_back_under_its_name_is_allowed_nothing(db: Database) -> None:
    process, caller = Process(db), caller_of()
    await process.service.register(caller, partner())
    await process.permissions.allow(caller, m.AllowCapability(action=SEND, worker="a2a:partner", prefer=True))
    await process.service.remove(caller, m.WorkerRef(worker="a2a:partner"))

    await process.service.register(caller, partner())

    assert await process.performer(caller) == "signature"


async def test_a_tenant_has_so_many_workers_and_no_more(db: Database) -> None:
    process, caller = Process(db), caller_of()
    for number in range(MOST_WORKERS):
        await process.service.register(caller, partner(name=f"w{number}"))

    with pytest.raises(TooManyWorkers):
        await process.service.register(caller, partner(name="one-more"))


async def test_the_input_of_a_remote_action_is_held_against_its_schema(db: Database) -> None:
    process, caller = Process(db), caller_of()
    schema = {"type": "object", "required": ["pattern"], "properties": {"pattern": {"type": "string", "maxLength": 3}}}
    await process.service.register(caller, partner(actions=[{"action": "form.fill", "input_schema": schema}]))
    await process.permissions.allow(caller, m.AllowCapability(action="form.fill", worker="a2a:partner"))

    route = await process.registry.find(caller, "form.fill")

    assert route is not None
    takes = route.capability.input
    assert takes.model_json_schema() == schema
    assert takes.model_validate({"pattern": "abc", "more": [1]}).model_dump() == {"pattern": "abc", "more": [1]}
    with pytest.raises(ValueError, match="too long"):
        takes.model_validate({"pattern": "abcd"})
