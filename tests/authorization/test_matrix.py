"""The authorization matrix: `matrix.tsv` against a running server, by every door and binding.

Every cell is asked over REST. The doors share the gate, which `tests/rules` and the architecture keep so, and differ in
what they do before it and after it; so every operation is asked on each of them at the edge: by the least role that
may, with every resource, and by one that may not.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar
from uuid import UUID

import httpx
import pytest

from dragoman.addresses import bindings
from dragoman.context import Caller, PrincipalType, Role, TenantId
from dragoman.infra.auth.authority import Authority
from dragoman.operations import Passage
from dragoman.parity.doors import interface
from tests.authorization.asking import PASSAGES, Questions
from tests.authorization.doors import A2a, Door, Grpc, HttpJson, JsonRpc, JsonRpc03, Mcp, Rest, Seed
from tests.authorization.people import ELSEWHERE, Actor, People
from tests.authorization.resources import Resources
from tests.authorization.table import LIMITED, ROLES, Line, read_table
from tests.doors.a2a.calling import CONFORMANCE
from tests.harness import InProcess
from tests.patience import PATIENCE_S

T = TypeVar("T")
TABLE = read_table()
OPERATIONS = [line for line in TABLE.values() if " " not in line.name]
RULES = [line for line in TABLE.values() if line.name.endswith(" rule")]
AT_ONCE = 6
TENANT = UUID(int=1)
Ask = Callable[[Actor, Line], Awaitable[str]]


class Installation:
    """A server, everyone who asks, and the doors; all on one loop."""

    def __init__(self, server: InProcess) -> None:
        self._loop = asyncio.Runner()
        self.http = httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_S)
        self.people = People(server, self.http)
        self.questions = Questions(self.people, Resources(self.people))
        self.grpc = Grpc(server)
        by_http = HttpJson(self.http, interface(server.url, "HTTP+JSON"))
        rpc = (JsonRpc(self.http), JsonRpc03(self.http))
        doors = (Rest(self.http), Mcp(self.http), *rpc, by_http, self.grpc, Seed(self.http))
        self.doors: dict[str, Door] = {door.name: door for door in doors}
        self.run(self.people.settle())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it on the loop."""
        return self._loop.run(work)

    async def actor(self, column: str, line: Line) -> Actor:
        """Return the one whom a column is about."""
        if column in ROLES:
            return self.people.person(column)
        if column == "invitation" and line.name == "user.accept":
            return await self.people.invited()
        if column == "link" and line.name == "link.decline":
            return await self.people.linked()
        return await self.people.limited(column, line.permission)

    def differing(self, cells: Sequence[tuple[Line, str]], ask: Ask) -> list[str]:
        """Return every cell that is not as the table says."""

        async def compare(line: Line, column: str, turn: asyncio.Semaphore) -> str | None:
            async with turn:
                found = await ask(await self.actor(column, line), line)
            expected = line.cells[column]
            return None if found == expected else f"{line.name}, {column}: expected {expected}, found {found}"

        async def all_of_them() -> list[str]:
            turn = asyncio.Semaphore(AT_ONCE)
            found = await asyncio.gather(*(compare(line, column, turn) for line, column in cells))
            return [difference for difference in found if difference is not None]

        return self.run(all_of_them())

    def close(self) -> None:
        """Hang up."""
        self.run(self.http.aclose())
        self.grpc.close()
        self._loop.close()


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    with InProcess(CONFORMANCE) as server:
        made = Installation(server)
        yield made
        made.close()


def every_cell(lines: Sequence[Line]) -> list[tuple[Line, str]]:
    return [(line, column) for line in lines for column in (*ROLES, *LIMITED)]


def least_allowed(line: Line) -> list[tuple[Line, str]]:
    """The cell of the least role that may, if there is one."""
    return [(line, role) for role in ROLES if not line.cells[role].startswith("-")][-1:]


def least_refused(line: Line) -> list[tuple[Line, str]]:
    """A cell of a role that is refused before anything is looked at, and that of a key for something else."""
    roles = [(line, role) for role in ROLES if line.cells[role] == "-"][:1]
    return roles + [(line, "other_key") for _ in "x" if line.cells["other_key"] == "-"]


def test_every_operation_and_every_passage_has_a_line_with_its_permission(installation: Installation) -> None:
    del installation  # the doors are loaded with the server
    declared = {binding.operation.name: binding.operation.permission for binding in bindings()}
    found = [value for name, module in list(sys.modules.items()) if name.startswith("dragoman.")
             for value in vars(module).values() if isinstance(value, Passage)]  # fmt: skip
    passages = {passage.name: passage.permission for passage in found if passage.name != "identity.show"}

    assert {line.name: line.permission for line in OPERATIONS} == declared
    named = {line.name.split()[0]: line.permission for line in TABLE.values() if " " in line.name}
    assert named == passages
    assert {line.name for line in TABLE.values() if " " in line.name} == {*PASSAGES, *(line.name for line in RULES)}


def test_every_cell_of_every_operation_holds_over_rest(installation: Installation) -> None:
    rest = installation.doors["REST"]

    async def ask(actor: Actor, line: Line) -> str:
        return await installation.questions.cell(rest, actor, line)

    assert installation.differing(every_cell(OPERATIONS), ask) == []


@pytest.mark.parametrize("name", ["MCP", "A2A JSON-RPC", "A2A HTTP+JSON", "A2A gRPC", "A2A 0.3", "A2A 0.1"])
def test_every_operation_is_open_to_those_who_may_and_closed_to_others_by_every_door(
    installation: Installation, name: str
) -> None:
    door = installation.doors[name]

    async def allowed(actor: Actor, line: Line) -> str:
        return await installation.questions.cell(door, actor, line)

    async def refused(actor: Actor, line: Line) -> str:
        return await installation.questions.refused(door, actor, line)

    assert installation.differing([cell for line in OPERATIONS for cell in least_allowed(line)], allowed) == []
    assert installation.differing([cell for line in OPERATIONS for cell in least_refused(line)], refused) == []


@pytest.mark.parametrize("binding", ["A2A JSON-RPC", "A2A HTTP+JSON", "A2A gRPC", "A2A 0.3"])
def test_every_cell_of_every_passage_holds_by_every_binding(installation: Installation, binding: str) -> None:
    door = installation.doors[binding]
    assert isinstance(door, A2a)

    async def ask(actor: Actor, line: Line) -> str:
        return await installation.questions.passage(door, actor, line)

    # 0.3 has no list of tasks.
    lines = [
        TABLE[name] for name, (method, _) in PASSAGES.items() if binding != "A2A 0.3" or method in JsonRpc03.METHODS
    ]
    assert len(lines) >= len(PASSAGES) - 1
    assert installation.differing(every_cell(lines), ask) == []


@pytest.mark.parametrize("name", ["MCP", "A2A 0.1"])
def test_a_conversation_is_seen_as_far_by_doors_that_have_ways_of_their_own(
    installation: Installation, name: str
) -> None:
    door = installation.doors[name]
    assert isinstance(door, Mcp | Seed)

    async def ask(actor: Actor, line: Line) -> str:
        return await installation.questions.reach(line, actor, lambda ref: door.show_task(actor.credential, ref))

    lines = [TABLE["task.get conversation"], TABLE["task.get action"]]
    assert installation.differing(every_cell(lines), ask) == []


@pytest.mark.parametrize("line", RULES, ids=lambda line: line.name)
def test_a_rule_that_other_lines_rest_on_is_as_the_table_says(line: Line) -> None:
    authority = Authority.open()
    asked = Passage(line.name.split()[0], line.permission)
    callers = {role: _caller([Role(role)]) for role in ROLES} | {
        "scoped_key": _caller([Role.ORG_ADMIN], scopes={line.permission}),
        "other_key": _caller([Role.ORG_ADMIN], scopes={ELSEWHERE}),
        "invitation": _caller([], scopes={"accept:invitation"}),
        "link": _caller([], scopes={"answer:link"}),
    }

    found = {column: "yes" if authority.permits(caller, asked) else "-" for column, caller in callers.items()}

    assert found == line.cells


def _caller(roles: Sequence[Role], scopes: set[str] | None = None) -> Caller:
    kind = PrincipalType.AGENT if Role.AGENT in roles else PrincipalType.USER
    held = frozenset(scopes) if scopes is not None else None
    return Caller(TenantId(TENANT), "t", "s", kind, frozenset(roles), "c", 0.0, held)


def test_a_credential_that_is_not_taken_opens_nothing_by_any_door(installation: Installation) -> None:
    """The edge refuses it before a door is asked: so each kind by each door, and every operation with one of them."""

    async def ask() -> dict[tuple[str, str, str], str]:
        kinds = await installation.people.refused()
        whoami = [(door, kind, "identity.show") for door in installation.doors for kind in kinds]
        # The kinds in turn.
        others = [("REST", [*kinds][at % len(kinds)], line.name) for at, line in enumerate(OPERATIONS)]
        asked = [*whoami, *others]
        answers = [installation.doors[door].call(kinds[kind], operation, {}) for door, kind, operation in asked]
        return dict(zip(asked, [answer.code for answer in await asyncio.gather(*answers)], strict=True))

    codes = installation.run(ask())

    assert {asked: code for asked, code in codes.items() if code != "UNAUTHENTICATED"} == {}
