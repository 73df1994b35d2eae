"""The skills that come with the server, in conversation."""

from typing import Any

import pytest

from dragoman import kit
from tests.doors.a2a.calling import A2A, text, tool
from tests.doors.a2a.test_governance import NO_PICKLE, enact
from tests.doors.a2a.tool_calls import by_message
from tests.doors.rest.calling import new_tenant
from tests.harness import DRAGOMAN, Process, Server

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


def test_a_tool_that_asks_is_told_to_a_model_as_a_question() -> None:
    question = kit.InputRequired("Which one?", kit.SkillSlot("which"))

    result = kit.ToolResult.ask(question)

    assert (result.output, result.is_error, result.question) == ("Which one?", False, question)


class AgentA2a(Process):
    """The server under the name that the seeds have for it."""

    program = DRAGOMAN.with_name("agent-a2a")


@pytest.mark.req("A2A-RT-1")
def test_agent_a2a_starts_memory_knowledge_and_governance_and_serves_their_tools() -> None:
    with AgentA2a() as server:
        call = by_message(A2A(server))
        added = call("memory_add", content=FACTS[0])
        enact(call, "no-pickle", NO_PICKLE, severity="block")
        shown = call("knowledge_show", id="no-pickle", include_history=True)
        verdict = call("governance_validate", context={"imports": ["pickle"]}, target_layer="project")
        with server.client() as anybody:
            health = anybody.get("/health").json()

    assert added["success"] is True
    assert (shown["status"], len(shown["history"]) > 0) == ("accepted", True)
    assert [one["policy_id"] for one in verdict["violations"]] == ["no-pickle"]
    assert {health["dependencies"][name]["status"] for name in ("postgresql", "memory", "git")} == {"up"}


@pytest.mark.req("A2A-OBS-1")
def test_the_server_starts_memory_knowledge_and_governance_and_serves_them_as_skills(served_plain: Server) -> None:
    with served_plain.client() as anybody:
        card = anybody.get("/.well-known/agent-card.json").json()
        old_card = anybody.get("/.well-known/agent.json").json()
        health = anybody.get("/health").json()

    for shown in (card, old_card):
        assert {"memory", "knowledge", "governance"} <= {one["id"] for one in shown["skills"]}
    assert {"postgresql", "valkey", "memory", "git"} <= set(health["dependencies"])
