from typing import Any

import pytest
from pydantic import BaseModel, Field

from dragoman.errors import Kind
from dragoman.kit import Event, LlmFunction, LlmOutputError, Thread, Usage
from dragoman.kit.testing import ScriptedLlm


class Claim(BaseModel):
    what: str
    amount: int = Field(ge=0)


@pytest.mark.req("KIT-1")
async def test_one_call_gives_a_value_of_the_type() -> None:
    llm = ScriptedLlm(Claim(what="lunch", amount=42))

    claim = await LlmFunction(llm, Claim, system="Read claims.").run("lunch, 42")

    assert claim == Claim(what="lunch", amount=42)
    assert len(llm.calls) == 1
    assert llm.calls[0].thread == Thread.from_system("Read claims.").add_event(Event.user("lunch, 42"))
    assert llm.calls[0].response is not None
    assert llm.calls[0].response.schema == Claim.model_json_schema()


@pytest.mark.parametrize(
    ("target", "reply"), [(int, 42), (list[str], ["a", "b"]), (bool, True), (str, "words"), (dict[str, int], {"a": 1})]
)
async def test_any_type_will_do(target: Any, reply: Any) -> None:
    llm = ScriptedLlm(reply if isinstance(reply, str | dict) else {"value": reply})

    assert await LlmFunction(llm, target).run("x") == reply


@pytest.mark.parametrize(
    "text",
    [
        '{"what": "tea", "amount": 2}',
        '```json\n{"what": "tea", "amount": 2}\n```',
        'Sure! Here it is: {"what": "tea", "amount": 2} Enjoy.',
        '\n  {"what": "tea", "amount": 2}\n',
        '{"what": "tea", "amount": 2} is what I read.',
        '{"what": "tea", "amount": 2, "note": "```json\\n{}\\n```"}',
        'As in [1]: {"what": "tea", "amount": 2}',
        '```\n{"what": "tea"}\n```\nOr rather {"what": "tea", "amount": 2}',
    ],
)
async def test_words_around_the_json_do_no_harm(text: str) -> None:
    assert await LlmFunction(ScriptedLlm(text), Claim).run("x") == Claim(what="tea", amount=2)


async def test_a_model_without_native_schemas_reads_it_in_the_prompt() -> None:
    llm = ScriptedLlm(Claim(what="tea", amount=2), native_schema=False)

    await LlmFunction(llm, Claim, system="Read claims.").run("tea")

    system = llm.calls[0].thread.system or ""
    assert llm.calls[0].response is None
    assert system.startswith("Read claims.")
    assert '"minimum": 0' in system


async def test_a_misfit_is_repaired_once_and_leaves_no_trace() -> None:
    llm = ScriptedLlm({"what": "tea", "amount": -1}, Claim(what="tea", amount=1))
    function = LlmFunction(llm, Claim)

    claim, thread = await function.run_and_continue("tea")

    assert claim.amount == 1
    assert [event.role for event in thread] == ["user", "assistant"]
    assert "amount: Input should be greater than or equal to 0" in llm.calls[1].thread[-1].text
    assert function.usage == Usage(20, 10, 2)


async def test_the_complaint_is_about_the_answer_and_not_about_a_piece_of_it() -> None:
    llm = ScriptedLlm({"what": "tea", "tags": ["a"]}, Claim(what="tea", amount=1))

    await LlmFunction(llm, Claim).run("tea")

    assert "does not fit: amount: Field required\n" in llm.calls[1].thread[-1].text


@pytest.mark.parametrize("nonsense", ["I cannot do that.", "{broken", "", '{"what": "tea"}', "[]"])
async def test_a_second_misfit_is_an_error_that_says_what_was_wrong(nonsense: str) -> None:
    function = LlmFunction(ScriptedLlm(nonsense, nonsense), Claim)

    with pytest.raises(LlmOutputError) as caught:
        await function.run("tea")

    assert caught.value.raw == nonsense
    assert caught.value.thread == Thread.from_user("tea")
    assert caught.value.usage == function.usage == Usage(20, 10, 2)
    assert caught.value.kind is Kind.INTERNAL
    assert caught.value.details == {"reason": "LLM_OUTPUT"}


async def test_the_thread_that_comes_back_can_be_gone_on_with() -> None:
    llm = ScriptedLlm("hello", "again")
    function = LlmFunction(llm, str)
    said, thread = await function.run_and_continue("hi")

    more, longer = await function.run_and_continue(thread.add_event(Event.user("and?")))

    assert (said, more) == ("hello", "again")
    assert [event.text for event in longer] == ["hi", "hello", "and?", "again"]
    assert len(thread) == 2
