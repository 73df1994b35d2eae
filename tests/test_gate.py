"""The gate with real parts around it: PostgreSQL, Valkey, Cedar and the audit trail, and two operations of its own."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pydantic import AwareDatetime, Field

from dragoman.arguments import Texts
from dragoman.context import Caller, Role
from dragoman.errors import Conflict, DragomanError, Forbidden, IdempotencyConflict, InvalidInput, RateLimited
from dragoman.gate import Gate, Guards, Observers
from dragoman.infra.auth.authority import Authority
from dragoman.infra.db import Database, IdempotencyKeys
from dragoman.infra.ids import new_id
from dragoman.infra.limits import Admission, Limiter, Quotas
from dragoman.infra.telemetry import Metrics, SecurityEvents, Tracer
from dragoman.operations import Effect, Handlers, Input, Operation, Output
from dragoman.services.audit.store import AuditStore
from dragoman.services.audit.trail import AuditTrail
from tests.harness import Server
from tests.infra.databases import superuser
from tests.infra.limits_valkey import Source, Valkey
from tests.patience import PATIENCE_S
from tests.services.audit.ledger import Ledger, database_url


class Tea(Input):
    """What both operations take."""

    kind: str = Field(max_length=20)
    cups: int = Field(1, ge=1, le=10)
    at: AwareDatetime | None = None
    with_it: dict[str, Any] = Field(default_factory=dict[str, Any])


class Served(Output):
    """What both give."""

    kind: str
    cups: int


LOOK = Operation("tea.look", "Look", Tea, Served, "read:memory")
STEEP = Operation("tea.steep", "Steep", Tea, Served, "write:memory", Effect.WRITE, long=True)
POUR = Operation("tea.pour", "Pour", Tea, Served, "write:memory", Effect.WRITE)


@dataclass
class Kitchen:
    """A gate, who asks, and what reached the handlers."""

    gate: Gate
    caller: Caller
    ledger: Ledger
    reached: list[Tea] = field(default_factory=list[Tea])
    steeping: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, caller: Caller, tea: Tea) -> Served:
        """Answer both operations."""
        del caller
        self.reached.append(tea)
        return Served(kind=tea.kind, cups=tea.cups)

    async def steep(self, caller: Caller, tea: Tea) -> Served:
        """Take as long as the test wants, and fail if it says so."""
        served = await self.handle(caller, tea)
        self.steeping.set()
        await self.done.wait()
        if tea.kind == "burnt":
            raise Conflict("burnt")
        return served

    async def refused(self, operation: Operation[Tea, Served], raw: Any, **options: Any) -> DragomanError:
        """The error that a run ends with."""
        with pytest.raises(DragomanError) as caught:
            await self.gate.run(operation, options.pop("caller", self.caller), raw, **options)
        return caught.value

    def recorded(self) -> list[tuple[str, str, str | None]]:
        """What the audit trail has of this tenant."""
        return [(one["operation"], one["outcome"], one["code"]) for one in self.ledger.records()]


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    """One for all of these; tenants do not meet in it."""
    server = Valkey()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def user_quota() -> int:
    """How many requests a minute a caller has."""
    return 100


@pytest.fixture
async def kitchen(server: Server, valkey: Valkey, user_quota: int) -> AsyncIterator[Kitchen]:
    """A gate in front of a tenant of its own."""
    ledger = Ledger(server)
    db = Database(database_url(server), size=2)
    limiter = Limiter(valkey.url, revocations=Source(), timeout_s=PATIENCE_S)
    await db.start()
    await limiter.start()
    metrics, handlers = Metrics(), Handlers()
    security = SecurityEvents(metrics)
    quotas = Quotas(ip=100, user=user_quota, tenant=1_000, skills={}, poll_factor=1, plan_factors={})
    admission = Admission(limiter, quotas, metrics=metrics, security=security)
    trail = AuditTrail(AuditStore(db), db, mac_key=ledger.mac_key, new_id=new_id, wake=lambda *_: None)
    keys = IdempotencyKeys(db)
    guards = Guards(admission, Authority.open(), keys, keys, trail)
    gate = Gate(handlers, guards, Observers(metrics, security, Tracer()), db, core_db=db)
    made = Kitchen(gate, ledger.caller, ledger)
    handlers.add(LOOK, made.handle)
    handlers.add(POUR, made.handle)
    handlers.add(STEEP, made.steep)
    yield made
    await limiter.stop()
    await db.stop()


def errors(error: DragomanError) -> list[tuple[str, str]]:
    """Fields with what is wrong with them."""
    assert isinstance(error, InvalidInput)
    return [(one["field"], one["message"]) for one in error.details["errors"]]


@pytest.mark.parametrize("user_quota", [2])
async def test_a_limit_comes_before_a_permission_and_a_permission_before_the_input(kitchen: Kitchen) -> None:
    viewer = replace(kitchen.caller, roles=frozenset({Role.VIEWER}))

    forbidden = await kitchen.refused(POUR, {"cups": "none"}, caller=viewer)
    invalid = await kitchen.refused(POUR, {"cups": "none"})
    limited = await kitchen.refused(POUR, {"cups": "none"}, caller=viewer)

    assert [type(one) for one in (forbidden, invalid, limited)] == [Forbidden, InvalidInput, RateLimited]
    assert kitchen.reached == []


WRONG = [
    ({"kind": "green", "cups": "5"}, b'{"kind": "green", "cups": "5"}', "cups"),
    ({"kind": "green", "colour": 1}, b'{"kind": "green", "colour": 1}', "colour"),
    ({"cups": 1}, b'{"cups": 1}', "kind"),
    ({"kind": "a\x00b"}, rb'{"kind": "a\u0000b"}', "kind"),
    (
        {"kind": "green", "with_it": {"n": 2**60}},
        b'{"kind": "green", "with_it": {"n": 1152921504606846976}}',
        "with_it",
    ),
    ({"kind\x00": 1}, rb'{"kind\u0000": 1}', "body"),
    ([1], b"[1]", "body"),
    ({f"f{n}": 1 for n in range(101)}, b"{" + b",".join(b'"f%d":1' % n for n in range(101)) + b"}", "body"),
]


@pytest.mark.parametrize(("values", "text", "field"), WRONG)
async def test_wrong_input_is_refused_in_the_same_words_as_values_and_as_text(
    kitchen: Kitchen, values: Any, text: bytes, field: str
) -> None:
    by_values, by_text = await kitchen.refused(LOOK, values), await kitchen.refused(LOOK, text)

    assert errors(by_values) == errors(by_text)
    assert [named for named, _ in errors(by_text)] == [field]
    assert kitchen.reached == []


@pytest.mark.parametrize("text", [b'{"kind": "green", "with_it": {"n": NaN}}', b"tea", b'{"kind": "green"'])
async def test_text_that_is_no_json_is_refused_as_that(kitchen: Kitchen, text: bytes) -> None:
    [(field, message)] = errors(await kitchen.refused(LOOK, text))

    assert (field, message.partition(":")[0]) == ("body", "must be JSON")


async def test_a_number_that_is_not_finite_is_refused(kitchen: Kitchen) -> None:
    assert [
        one[0] for one in errors(await kitchen.refused(LOOK, {"kind": "green", "with_it": {"n": float("inf")}}))
    ] == ["with_it"]
    assert errors(await kitchen.refused(LOOK, b'{"kind": "green", "with_it": {"n": 1e999}}'))


async def test_good_input_is_the_same_as_values_as_text_and_from_a_query(kitchen: Kitchen) -> None:
    await kitchen.gate.run(LOOK, kitchen.caller, {"kind": "green", "cups": 2, "at": "2026-01-01T00:00:00Z"})
    await kitchen.gate.run(LOOK, kitchen.caller, b'{"kind": "green", "cups": 2, "at": "2026-01-01T00:00:00Z"}')
    await kitchen.gate.run(LOOK, kitchen.caller, Texts({"kind": "green", "cups": "2", "at": "2026-01-01T00:00:00Z"}))

    assert kitchen.reached[0] == kitchen.reached[1] == kitchen.reached[2]
    assert kitchen.reached[0].at is not None


async def test_an_input_of_our_own_code_is_taken_as_it_is(kitchen: Kitchen) -> None:
    tea = Tea.model_construct(kind="green", cups=99)

    await kitchen.gate.run(LOOK, kitchen.caller, tea)

    assert kitchen.reached[0] is tea


@pytest.mark.parametrize("user_quota", [1])
async def test_what_was_admitted_is_not_counted_again_but_only_once(kitchen: Kitchen) -> None:
    admitted = await kitchen.gate.admit(LOOK, kitchen.caller)

    await kitchen.gate.run(LOOK, kitchen.caller, {"kind": "green"}, admitted=admitted)
    again = await kitchen.refused(LOOK, {"kind": "green"}, admitted=admitted)

    assert isinstance(again, RateLimited)
    assert len(kitchen.reached) == 1


@pytest.mark.parametrize("user_quota", [1])
async def test_a_token_is_worth_nothing_for_another_operation(kitchen: Kitchen) -> None:
    admitted = await kitchen.gate.admit(LOOK, kitchen.caller)

    other = await kitchen.refused(POUR, {"kind": "green"}, admitted=admitted)
    await kitchen.gate.run(LOOK, kitchen.caller, {"kind": "green"}, admitted=admitted)

    assert isinstance(other, RateLimited)


@pytest.mark.parametrize("user_quota", [1])
async def test_a_token_is_worth_nothing_for_another_caller(kitchen: Kitchen) -> None:
    admitted = await kitchen.gate.admit(LOOK, kitchen.caller)
    other = replace(kitchen.caller, subject="eve")
    await kitchen.gate.guard(LOOK, other)

    refused = await kitchen.refused(LOOK, {"kind": "green"}, caller=other, admitted=admitted)

    assert isinstance(refused, RateLimited)


@pytest.mark.parametrize("user_quota", [1])
async def test_a_passage_takes_a_token_too(kitchen: Kitchen) -> None:
    admitted = await kitchen.gate.admit(LOOK, kitchen.caller)

    await kitchen.gate.guard(LOOK, kitchen.caller, admitted=admitted)
    with pytest.raises(RateLimited):
        await kitchen.gate.guard(LOOK, kitchen.caller, admitted=admitted)


@pytest.mark.parametrize("user_quota", [1])
async def test_what_the_server_looks_up_by_itself_is_not_counted(kitchen: Kitchen) -> None:
    for _ in range(3):
        included = kitchen.gate.include(LOOK, kitchen.caller)
        await kitchen.gate.run(LOOK, kitchen.caller, {"kind": "green"}, admitted=included)

    await kitchen.gate.run(LOOK, kitchen.caller, {"kind": "green"})
    assert len(kitchen.reached) == 4


async def test_a_refused_write_is_recorded_whichever_guard_refused_it(kitchen: Kitchen) -> None:
    viewer = replace(kitchen.caller, roles=frozenset({Role.VIEWER}))

    await kitchen.refused(POUR, {"cups": 0})
    await kitchen.refused(POUR, {"kind": "green"}, caller=viewer)
    await kitchen.gate.run(POUR, kitchen.caller, {"kind": "green"})

    assert kitchen.recorded() == [
        ("tea.pour", "done", None),
        ("tea.pour", "refused", "UNAUTHORIZED"),
        ("tea.pour", "failed", "INVALID_PARAMS"),
    ]


async def test_a_read_that_is_refused_for_its_input_leaves_no_record(kitchen: Kitchen) -> None:
    await kitchen.refused(LOOK, {"cups": 0})

    assert kitchen.recorded() == []


async def test_a_key_is_claimed_only_by_input_that_can_be_read(kitchen: Kitchen) -> None:
    await kitchen.refused(POUR, {"cups": 0}, idempotency_key="tea-1")
    first = await kitchen.gate.run(POUR, kitchen.caller, {"kind": "green"}, idempotency_key="tea-1")
    second = await kitchen.gate.run(POUR, kitchen.caller, b'{"kind": "green"}', idempotency_key="tea-1")

    assert first == second
    assert len(kitchen.reached) == 1


async def test_of_long_writes_with_one_key_at_one_moment_the_first_runs_and_all_get_its_output(
    kitchen: Kitchen,
) -> None:
    async def steep(cups: int = 2) -> Served:
        return await kitchen.gate.run(STEEP, kitchen.caller, {"kind": "green", "cups": cups}, idempotency_key="pot-1")

    async with asyncio.timeout(PATIENCE_S):
        first = asyncio.create_task(steep())
        await kitchen.steeping.wait()
        others = [asyncio.create_task(steep()) for _ in range(3)]
        with pytest.raises(IdempotencyConflict):
            await steep(cups=3)
        kitchen.done.set()
        served = await asyncio.gather(first, *others)

    assert served == [Served(kind="green", cups=2)] * 4
    assert len(kitchen.reached) == 1


async def test_the_key_of_a_long_write_that_fails_may_be_used_again(kitchen: Kitchen) -> None:
    kitchen.done.set()

    refused = await kitchen.refused(STEEP, {"kind": "burnt"}, idempotency_key="pot-2")
    served = await kitchen.gate.run(STEEP, kitchen.caller, {"kind": "green"}, idempotency_key="pot-2")

    assert (refused.code, served) == (Conflict.code, Served(kind="green", cups=1))


async def test_a_long_write_whose_process_died_may_be_begun_again(kitchen: Kitchen, server: Server) -> None:
    """Even with another input: nothing is known to have been done."""
    left = """INSERT INTO idempotency_keys (tenant_id, scope, key, digest, begun_until)
        VALUES ($1, $2, 'pot-3', '\\x00', now() - interval '1 second')"""
    await superuser(database_url(server), left, kitchen.caller.tenant, kitchen.caller.subject)
    kitchen.done.set()

    served = await kitchen.gate.run(STEEP, kitchen.caller, {"kind": "green"}, idempotency_key="pot-3")
    again = await kitchen.gate.run(STEEP, kitchen.caller, {"kind": "green"}, idempotency_key="pot-3")

    assert served == again == Served(kind="green", cups=1)
    assert len(kitchen.reached) == 1
