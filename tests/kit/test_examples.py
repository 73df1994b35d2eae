import pytest
from examples.expenses.agent import Claim, agent

from dragoman.kit import Artifact, How, Runtime, TaskState
from dragoman.kit.testing import ScriptedLlm


async def test_the_expenses_agent_asks_for_what_is_missing_and_keeps_the_total() -> None:
    llm = ScriptedLlm(Claim(), Claim(what="taxi", amount=20))
    async with Runtime(agent.with_llm(llm)) as runtime:
        asked = await runtime.send("expenses.claim: something")
        asked_more = await runtime.send("lunch", task_id=asked.id)
        asked_again = await runtime.send("a lot", task_id=asked.id)
        filed = await runtime.send("42", task_id=asked.id)
        await runtime.send("expenses.claim: taxi, 20", context_id=asked.context_id)
        total = await runtime.send({"tool": "claimed_so_far"}, context_id=asked.context_id)

    assert [task.text for task in (asked, asked_more, asked_again)] == [
        "What was it for?",
        "How much was it, in euros?",
        "A number, please: how much was it?",
    ]
    assert filed.artifacts == (Artifact.from_json("claim", Claim(what="lunch", amount=42)),)
    assert (total.route, total.artifacts[0].content.data) == (How.TOOL, (62.0,))


@pytest.mark.parametrize(
    ("answers", "state"), [(("lunch", "501"), TaskState.FAILED), (("lunch", "500"), TaskState.COMPLETED)]
)
async def test_the_limit_holds_for_answers_too(answers: tuple[str, ...], state: TaskState) -> None:
    async with Runtime(agent.with_llm(ScriptedLlm(Claim()))) as runtime:
        task = await runtime.send("expenses.claim")
        for answer in answers:
            task = await runtime.send(answer, task_id=task.id)

    assert task.state is state


async def test_a_claim_above_the_limit_is_rejected_at_once() -> None:
    async with Runtime(agent.with_llm(ScriptedLlm(Claim(what="car", amount=9000)))) as runtime:
        assert (await runtime.send("expenses.claim a car")).state is TaskState.REJECTED
