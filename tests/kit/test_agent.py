import pytest

from dragoman.errors import NotFound
from dragoman.kit import Agent
from dragoman.kit.testing import RecordingTool, ScriptedLlm, agent_of
from tests.kit.test_skill import Echo, Shop


def test_an_agent_holds_identity_and_skills_in_their_order() -> None:
    agent = Agent("clerk", "Keeps the books.", "2.0.0", instructions="Be exact.", skills=[Shop, Echo()])

    assert (agent.name, agent.description, agent.version) == ("clerk", "Keeps the books.", "2.0.0")
    assert agent.instructions == "Be exact."
    assert [one.id for one in agent.skills] == ["shop", "echo"]
    assert [one.name for one in agent.tools] == ["price", "buy"]
    assert repr(agent) == "Agent('clerk', '2.0.0', skills=['shop', 'echo'])"


def test_skills_and_tools_are_found_by_name() -> None:
    agent = agent_of(Shop, Echo)

    assert agent.get_skill("echo").id == "echo"
    assert agent.get_tool("buy")[0].id == "shop"
    with pytest.raises(NotFound, match="skill 'ech' not found"):
        agent.get_skill("ech")
    with pytest.raises(NotFound) as caught:
        agent.get_tool("bui")
    assert caught.value.message == "tool 'bui' not found (did you mean 'buy'?)"


def test_what_would_be_ambiguous_is_refused() -> None:
    class Other(Shop):
        tools = [RecordingTool("buy")]

    with pytest.raises(ValueError, match="have the id 'echo'"):
        agent_of(Echo, Echo)
    with pytest.raises(ValueError, match="two tools are named 'buy'"):
        agent_of(Other)
    with pytest.raises(ValueError, match="at least one skill"):
        agent_of()
    with pytest.raises(ValueError, match="needs a name"):
        Agent(" ", "x", skills=[Echo])


def test_another_model_makes_another_agent() -> None:
    agent, llm = agent_of(Echo), ScriptedLlm()

    assert agent.with_llm(llm).llm is llm
    assert agent.llm is None
