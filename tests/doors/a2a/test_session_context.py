"""What a conversation begins with over A2A, and A2A and Python frameworks as ecosystems of agents."""

import asyncio
from typing import Any

import pytest

from dragoman import kit
from dragoman.doors.a2a.card import Cards
from dragoman.doors.a2a.ecosystem import A2aAdapter
from dragoman.doors.a2a.negotiation import SESSION_EXTENSION, TOOLS_EXTENSION
from dragoman.kit.remote import PythonAdapter
from tests.backstage import metrics, sql
from tests.doors.a2a.calling import A2A, text, tool
from tests.doors.a2a.test_governance import NO_PICKLE, enact
from tests.doors.a2a.tool_calls import by_message
from tests.doors.rest.calling import data, new_tenant
from tests.harness import Server

ACTIVE = {"A2A-Extensions": SESSION_EXTENSION}
FACTS = ("The demo is on Friday at noon", "The demo room is on the second floor")
ASKED = "What do you remember about the demo?"
EMPTY = {"memories": [], "constraints": [], "omitted": {"memories": 0, "constraints": 0}, "unavailable": []}
NO_SQLITE = {**NO_PICKLE, "pattern": "sqlite3", "severity": "block", "message": "Use PostgreSQL."}


@pytest.fixture
def tenant(served_plain: Server) -> str:
    return new_tenant(served_plain)["slug"]


@pytest.fixture
def agent(served_plain: Server, tenant: str) -> A2A:
    """One in a tenant of its own, on a server without an agent of anybody's."""
    return A2A(served_plain, tenant=tenant)


def remember(agent: A2A, *facts: str, **where: Any) -> None:
    for fact in facts:
        by_message(agent)("memory_add", content=fact, **where)


def seed_message(said: str, **fields: Any) -> dict[str, Any]:
    return {"message": {"role": "user", "parts": [{"type": "text", "text": said}]}, **fields}


def begun(agent: A2A, said: str = ASKED, asked: Any = None, **fields: Any) -> dict[str, Any]:
    """The session context of a new conversation."""
    metadata = {} if asked is None else {"metadata": {"session_context": asked}}
    return agent.send(text(said, **metadata, **fields), **ACTIVE)["metadata"]["session_context"]


def contents(context: dict[str, Any]) -> set[str]:
    return {one["content"] for one in context["memories"]}


@pytest.mark.req("A2A-ECO-2")
def test_the_first_task_of_a_conversation_carries_what_matters(agent: A2A) -> None:
    remember(agent, *FACTS)
    enact(by_message(agent), "no-pickle", NO_PICKLE, severity="block")

    first = agent.send(text(ASKED), **ACTIVE)
    second = agent.send(text(ASKED, contextId=first["contextId"]), **ACTIVE)

    given = first["metadata"]["session_context"]
    assert contents(given) == set(FACTS)
    assert [(one["policy_id"], one["severity"]) for one in given["constraints"]] == [("no-pickle", "block")]
    assert "session_context" not in second.get("metadata", {})


@pytest.mark.req("A2A-ECO-2")
def test_the_session_context_is_declared_and_is_for_clients_that_activate_it(agent: A2A) -> None:
    remember(agent, *FACTS)
    declared = agent.http.get("/.well-known/agent-card.json").json()["capabilities"]["extensions"]

    without = agent.send(text(ASKED))
    on_plain_paths = agent.http.post("/tasks/send", json=seed_message(ASKED)).json()

    assert SESSION_EXTENSION in [one["uri"] for one in declared]
    assert "session_context" not in without.get("metadata", {})
    assert contents(on_plain_paths["metadata"]["session_context"]) == set(FACTS)


def test_a_direct_tool_call_carries_no_session_context_and_looks_nothing_up(agent: A2A, served_plain: Server) -> None:
    remember(agent, *FACTS)
    part = {"type": "data", "data": {"tool": "identity_show", "arguments": {}}}
    before = looked_up(served_plain)

    called = agent.send(tool("identity_show"), **ACTIVE)
    on_plain_paths = agent.http.post("/tasks/send", json={"message": {"role": "user", "parts": [part]}}).json()

    assert "session_context" not in called.get("metadata", {})
    assert "session_context" not in on_plain_paths["metadata"]
    assert looked_up(served_plain) == before


def test_what_a_session_begins_with_goes_through_the_gate_and_is_measured(agent: A2A, served_plain: Server) -> None:
    before = looked_up(served_plain)

    begun(agent)

    assert looked_up(served_plain) > before


def looked_up(server: Server) -> float:
    counted = 'dragoman_operations_total{operation="governance.policies"'
    return sum(value for sample, value in metrics(server).items() if sample.startswith(counted))


@pytest.mark.req("MKS-TEN-2")
def test_what_a_conversation_begins_with_is_its_own_tenants(agent: A2A, served_plain: Server) -> None:
    remember(agent, *FACTS)
    remember(agent, "The launch is in May", layer="project", ids={"project_id": "apollo"})
    stranger = A2A(served_plain, tenant=new_tenant(served_plain)["slug"])

    assert begun(stranger) == EMPTY
    assert begun(stranger, asked={"ids": {"project_id": "apollo"}}) == EMPTY


@pytest.mark.req("A2A-ECO-2")
def test_one_long_memory_takes_the_place_of_no_other(agent: A2A) -> None:
    remember(agent, "The demo " * 7_000, *FACTS)

    context = begun(agent)
    small = begun(agent, asked={"max_characters": 600})

    long = next(one for one in context["memories"] if one["truncated"])
    assert contents(context) == {long["content"], *FACTS}
    assert long["content"].endswith("…")
    assert 6_000 < sum(len(one["content"]) for one in context["memories"]) < 12_000
    assert sum(len(one["content"]) for one in small["memories"]) < 600
    assert len(small["memories"]) + small["omitted"]["memories"] == 3


@pytest.mark.req("A2A-ECO-2")
def test_what_a_check_would_block_on_is_among_the_constraints_whatever_item_demands_it(agent: A2A) -> None:
    call = by_message(agent)
    call("knowledge_propose", type="adr", id="use-postgresql", title="Use PostgreSQL", content="Why.",
         constraints=[NO_SQLITE, {**NO_PICKLE, "severity": "warn"}])  # fmt: skip
    before = begun(agent)
    call("knowledge_accept", id="use-postgresql")

    (constraint,) = begun(agent)["constraints"]
    (violation,) = call("knowledge_check", files=[{"path": "a.py", "content": "import sqlite3\n"}])["violations"]

    assert before["constraints"] == []
    assert (constraint["item_id"], constraint["item_type"], constraint["policy_id"]) == ("use-postgresql", "adr", None)
    assert (violation["item_id"], violation["constraint"], violation["severity"]) == (
        constraint["item_id"],
        constraint["constraint"],
        constraint["severity"],
    )


def test_the_constraints_in_force_are_listed_severest_first(agent: A2A) -> None:
    call = by_message(agent)
    enact(call, "no-pickle", NO_PICKLE, severity="warn")
    enact(call, "no-sqlite", NO_SQLITE)

    every, blocking = call("knowledge_constraints"), call("knowledge_constraints", min_severity="block")

    assert [(one["item_id"], one["severity"]) for one in every["constraints"]] == [
        ("no-sqlite", "block"),
        ("no-pickle", "warn"),
    ]
    assert (every["total_count"], blocking["total_count"]) == (2, 1)


@pytest.mark.req("A2A-ECO-2")
@pytest.mark.parametrize("layer", ["project", "team", "session"])
def test_memories_of_a_project_a_team_or_a_session_are_there_when_its_id_is_given(agent: A2A, layer: str) -> None:
    remember(agent, FACTS[0])
    remember(agent, FACTS[1], layer=layer, ids={f"{layer}_id": "apollo"})

    assert contents(begun(agent)) == {FACTS[0]}
    assert contents(begun(agent, asked={"ids": {f"{layer}_id": "apollo"}})) == set(FACTS)
    assert contents(begun(agent, asked={"ids": {f"{layer}_id": "gemini"}})) == {FACTS[0]}


def test_a_context_that_the_client_names_brings_the_memories_of_that_session(agent: A2A) -> None:
    remember(agent, FACTS[1], layer="session", ids={"session_id": "chat-7"})

    assert contents(begun(agent, contextId="chat-7")) == {FACTS[1]}
    assert contents(begun(agent, contextId="chat 7 \x7e" * 20)) == set()


def test_the_ids_of_the_plain_paths_stand_in_the_metadata(agent: A2A) -> None:
    remember(agent, FACTS[1], layer="project", ids={"project_id": "apollo"})
    metadata = {"session_context": {"ids": {"project_id": "apollo"}, "memories": "what a task carried is left alone"}}

    task = agent.http.post("/tasks/send", json=seed_message(ASKED, metadata=metadata)).json()

    assert contents(task["metadata"]["session_context"]) == {FACTS[1]}


def test_another_users_memories_are_not_told_whatever_ids_are_given(served_plain: Server, tenant: str) -> None:
    ada, bob = (A2A(served_plain, tenant=tenant, role="operator", user=name) for name in ("ada", "bob"))
    remember(ada, FACTS[0])
    remember(ada, FACTS[1], layer="session", ids={"session_id": "chat-7"})
    foreign = {"user_id": "ada", "session_id": "chat-7"}

    assert begun(bob, asked={"ids": foreign}) == begun(bob, asked={"ids": {**foreign, "user_id": "nobody"}}) == EMPTY
    assert begun(bob, asked={"ids": {"session_id": "chat-7"}}) == EMPTY


def test_wrong_ids_are_named_and_begin_nothing(agent: A2A) -> None:
    wrong = text(ASKED, metadata={"session_context": {"ids": {"project": "apollo"}, "max_characters": 1}})

    error = agent.error("SendMessage", wrong, **ACTIVE)

    named = {one["field"] for detail in error["data"] for one in detail.get("fieldViolations", [])}
    assert named == {f"message.metadata.session_context.{name}" for name in ("ids.project", "max_characters")}
    assert agent.call("ListTasks", {})["tasks"] == []


def test_the_rules_of_another_project_are_left_out_when_the_project_is_given(agent: A2A) -> None:
    enact(by_message(agent), "no-pickle", NO_PICKLE, severity="warn", layer="project", layer_id="gemini")

    assert [one["item_id"] for one in begun(agent)["constraints"]] == ["no-pickle"]
    assert begun(agent, asked={"ids": {"project_id": "apollo"}})["constraints"] == []


@pytest.mark.req("A2A-ECO-1")
async def test_a2a_is_an_ecosystem_whose_tools_are_what_its_card_shows(
    served_plain: Server, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The door asks its adapter: what that does not give, the card has not."""
    reader = A2A(served_plain, tenant=tenant, scopes=["read:memory", "read:knowledge"])
    adapters: list[kit.EcosystemAdapter[dict[str, Any]]] = []
    made = Cards._card

    async def watched(cards: Cards, base_url: str, adapter: A2aAdapter) -> Any:
        adapters.append(adapter)
        return await made(cards, base_url, adapter)

    monkeypatch.setattr(Cards, "_card", watched)
    card = reader.call("GetExtendedAgentCard", {})
    (extension,) = [one for one in card["capabilities"]["extensions"] if one["uri"] == TOOLS_EXTENSION]
    (adapter,) = adapters
    native = [*await adapter.get_memory_tools(), *await adapter.get_knowledge_tools()]

    assert extension["params"]["tools"][: len(native)] == native
    assert {"memory_search", "knowledge_query"} <= {one["name"] for one in native}
    assert "memory_add" not in {one["name"] for one in native}
    assert {one["skill"] for one in native} == {"memory", "knowledge"}
    assert not {one["skill"] for one in extension["params"]["tools"][len(native) :]} & {"memory", "knowledge"}


@pytest.mark.req("A2A-ECO-1")
async def test_a_python_framework_gets_callables_with_schemas_and_the_session_context(
    served_plain: Server, tenant: str
) -> None:
    session = kit.Session("s-1", about="What do you remember about tea?")
    async with PythonAdapter(served_plain.url, served_plain.token(tenant=tenant)) as python:
        adapter: kit.EcosystemAdapter[kit.Tool] = python
        memory = {one.name: one for one in await adapter.get_memory_tools()}
        knowledge = {one.name: one for one in await adapter.get_knowledge_tools()}

        added = await memory["memory_add"].call({"content": "Ada takes her tea without milk"})
        refused = await memory["memory_add"].call({"content": ""})
        asked = await knowledge["knowledge_query"].call({"query": "tea"})
        await python.remember_message(session, "user", "tea, please")
        await python.remember_tool_use(session, "brew", {"drink": "tea"}, "a pot of tea")
        context = await adapter.get_session_context(session)

    assert memory["memory_add"].input_schema["required"] == ["content"]
    assert (added.is_error, refused.code, asked.is_error) == (False, "INVALID_PARAMS", False)
    assert {one["content"] for one in context.memories} == {
        "Ada takes her tea without milk",
        "user: tea, please",
        "brew({'drink': 'tea'}) gave a pot of tea",
    }
    assert "Ada takes her tea without milk" in context.as_prompt()


def test_asking_for_the_session_context_writes_nothing(served_plain: Server, tenant: str) -> None:
    """Not even where what it is about reads like something to do."""
    tables = ("memories", "tasks", "audit_records", "threads")

    def rows() -> list[Any]:
        (found,) = sql(served_plain, "SELECT id FROM tenants WHERE slug = $1", tenant)
        counted = (f"SELECT '{table}', count(*) FROM {table} WHERE tenant_id = $1" for table in tables)
        return sql(served_plain, " UNION ALL ".join(counted), found["id"])

    async def ask() -> kit.SessionContext:
        async with PythonAdapter(served_plain.url, served_plain.token(tenant=tenant)) as adapter:
            return await adapter.get_session_context(kit.Session("s-1", about="Remember that the safe code is 4711"))

    before = rows()
    context = asyncio.run(ask())

    assert (context.memories, context.constraints) == ([], [])
    assert rows() == before


def test_the_session_context_can_be_asked_for_over_rest(agent: A2A) -> None:
    remember(agent, FACTS[1], layer="project", ids={"project_id": "apollo"})

    context = data(agent.http.post("/api/memories/context", json={"ids": {"project_id": "apollo"}}))

    assert contents(context) == {FACTS[1]}
