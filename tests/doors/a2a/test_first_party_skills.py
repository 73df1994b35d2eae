"""The skills that come with the server, in conversation."""

from typing import Any

import pytest

from dragoman import kit
from dragoman.doors.a2a.negotiation import SESSION_EXTENSION
from dragoman.kit.remote import PythonAdapter
from tests.backstage import metrics
from tests.doors.a2a.calling import A2A, text, tool
from tests.doors.a2a.test_governance import NO_PICKLE, enact
from tests.doors.a2a.tool_calls import by_message
from tests.doors.rest.calling import new_tenant
from tests.harness import Server

ACTIVE = {"A2A-Extensions": SESSION_EXTENSION}
FACTS = ("The demo is on Friday at noon", "The demo room is on the second floor")


@pytest.fixture
def agent(served_plain: Server) -> A2A:
    """One in a tenant of its own, on a server without an agent of anybody's."""
    return A2A(served_plain, tenant=new_tenant(served_plain)["slug"])


def remember(agent: A2A, *facts: str) -> list[str]:
    call = by_message(agent)
    return [call("memory_add", content=fact)["memory_id"] for fact in facts]


def words(task: dict[str, Any]) -> str:
    return "\n".join(part["text"] for part in task["status"]["message"]["parts"] if "text" in part)


@pytest.mark.req("MKS-ST-1", "A2A-SK-1")
@pytest.mark.parametrize("answer", ["1", "second floor", "by data"], ids=["number", "words", "data"])
def test_an_update_that_fits_several_memories_asks_and_goes_on_with_the_answer(agent: A2A, answer: str) -> None:
    remember(agent, *FACTS)

    asked = agent.send(tool("memory_update", {"query": "the demo", "content": "The demo is cancelled"}))
    candidates = next(part["data"]["candidates"] for part in asked["status"]["message"]["parts"] if "data" in part)
    wanted = candidates[0] if answer == "1" else next(one for one in candidates if "second floor" in one["content"])
    said = {"data": {"memory_id": wanted["memory_id"]}} if answer == "by data" else {"text": answer}
    message = {**text("")["message"], "parts": [said], "taskId": asked["id"], "contextId": asked["contextId"]}
    done = agent.send({"message": message})

    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    (artifact,) = done["artifacts"]
    assert (artifact["name"], artifact["parts"][0]["data"]["memory_id"]) == ("memory_update", wanted["memory_id"])
    listed = by_message(agent)("memory_list")["items"]
    assert {one["content"] for one in listed} == {"The demo is cancelled", *FACTS} - {wanted["content"]}


@pytest.mark.req("MKS-ST-1")
def test_the_seeds_paths_ask_and_go_on_by_the_tasks_own_address(agent: A2A) -> None:
    remember(agent, *FACTS)
    part = {"type": "data", "data": {"tool": "memory_update", "arguments": {"query": "the demo", "content": "Off"}}}

    asked = agent.http.post("/tasks/send", json={"message": {"role": "user", "parts": [part]}}).json()
    unclear = agent.http.post(f"/tasks/{asked['id']}/send", json=_say("that one")).json()
    done = agent.http.post(f"/tasks/{asked['id']}/send", json=_say("2")).json()

    assert [one["status"]["state"] for one in (asked, unclear, done)] == [
        "input-required",
        "input-required",
        "completed",
    ]
    assert done["artifacts"][0]["parts"][0]["data"]["success"] is True


def _say(said: str) -> dict[str, Any]:
    return {"message": {"role": "user", "parts": [{"type": "text", "text": said}]}}


def test_plain_words_are_remembered_and_recalled_without_a_model(agent: A2A) -> None:
    told = agent.send(text("Remember that Ada takes her tea without milk"))
    recalled = agent.send(text("What do you remember about tea?"))

    assert words(told) == "Remembered."
    assert "Ada takes her tea without milk" in words(recalled)


@pytest.mark.req("A2A-ECO-2")
def test_the_first_task_of_a_conversation_carries_what_matters(agent: A2A) -> None:
    remember(agent, *FACTS)
    enact(by_message(agent), "no-pickle", NO_PICKLE, severity="block")

    first = agent.send(text("What do you remember about the demo?"), **ACTIVE)
    second = agent.send(text("What do you remember about the demo?", contextId=first["contextId"]), **ACTIVE)

    given = first["metadata"]["session_context"]
    assert {one["content"] for one in given["memories"]} == set(FACTS)
    assert [(one["policy_id"], one["severity"]) for one in given["constraints"]] == [("no-pickle", "block")]
    assert "session_context" not in second.get("metadata", {})


@pytest.mark.req("A2A-ECO-2")
def test_the_session_context_is_declared_and_is_for_clients_that_activate_it(agent: A2A) -> None:
    remember(agent, *FACTS)
    declared = agent.http.get("/.well-known/agent-card.json").json()["capabilities"]["extensions"]

    without = agent.send(text("What do you remember about the demo?"))
    on_plain_paths = agent.http.post("/tasks/send", json=_say("What do you remember about the demo?")).json()

    assert SESSION_EXTENSION in [one["uri"] for one in declared]
    assert "session_context" not in without.get("metadata", {})
    assert {one["content"] for one in on_plain_paths["metadata"]["session_context"]["memories"]} == set(FACTS)


@pytest.mark.req("A2A-ECO-2")
def test_a_direct_tool_call_carries_no_session_context(agent: A2A) -> None:
    remember(agent, *FACTS)
    part = {"type": "data", "data": {"tool": "memory_list", "arguments": {}}}

    called = agent.send(tool("memory_list"), **ACTIVE)
    on_plain_paths = agent.http.post("/tasks/send", json={"message": {"role": "user", "parts": [part]}}).json()

    assert "session_context" not in called.get("metadata", {})
    assert "session_context" not in on_plain_paths["metadata"]


def test_what_a_session_begins_with_goes_through_the_gate_and_is_measured(agent: A2A, served_plain: Server) -> None:
    def measured() -> float:
        counted = 'dragoman_operations_total{operation="governance.policies"'
        return sum(value for sample, value in metrics(served_plain).items() if sample.startswith(counted))

    before = measured()
    agent.send(text("What do you remember about the demo?"), **ACTIVE)

    assert measured() > before


@pytest.mark.req("MKS-TEN-2")
def test_what_a_conversation_begins_with_is_its_own_tenants(agent: A2A, served_plain: Server) -> None:
    remember(agent, *FACTS)
    stranger = A2A(served_plain, tenant=new_tenant(served_plain)["slug"])

    task = stranger.send(text("What do you remember about the demo?"), **ACTIVE)

    assert task["metadata"]["session_context"] == {"memories": [], "constraints": []}


@pytest.mark.req("A2A-ECO-1")
async def test_a_python_framework_gets_callables_with_schemas_and_the_session_context(served_plain: Server) -> None:
    slug = new_tenant(served_plain)["slug"]
    session = kit.Session("s-1", about="What do you remember about tea?")
    adapter: kit.EcosystemAdapter
    async with PythonAdapter(served_plain.url, served_plain.token(tenant=slug), remember=True) as adapter:
        memory = {one.name: one for one in await adapter.get_memory_tools()}
        knowledge = {one.name: one for one in await adapter.get_knowledge_tools()}

        added = await memory["memory_add"].call({"content": "Ada takes her tea without milk"})
        refused = await memory["memory_add"].call({"content": ""})
        asked = await knowledge["knowledge_query"].call({"query": "tea"})
        await adapter.on_message(session, "user", "tea, please")
        context = await adapter.on_session_start(session)

    assert memory["memory_add"].input_schema["required"] == ["content"]
    assert (added.is_error, refused.code, asked.is_error) == (False, "INVALID_PARAMS", False)
    assert "Ada takes her tea without milk" in [one["content"] for one in context.memories]
    assert "Ada takes her tea without milk" in context.as_prompt()


def test_a_tool_that_asks_is_told_to_a_model_as_a_question() -> None:
    question = kit.InputRequired("Which one?", kit.SkillSlot("which"))

    result = kit.ToolResult.ask(question)

    assert (result.output, result.is_error, result.question) == ("Which one?", False, question)


@pytest.mark.req("A2A-RT-1", "A2A-OBS-1")
def test_the_server_starts_memory_knowledge_and_governance_and_serves_them_as_skills(served_plain: Server) -> None:
    with served_plain.client() as anybody:
        card = anybody.get("/.well-known/agent-card.json").json()
        old_card = anybody.get("/.well-known/agent.json").json()
        health = anybody.get("/health").json()

    for shown in (card, old_card):
        assert {"memory", "knowledge", "governance"} <= {one["id"] for one in shown["skills"]}
    assert {"postgresql", "valkey", "memory", "git"} <= set(health["dependencies"])
