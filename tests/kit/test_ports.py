import asyncio
from dataclasses import dataclass
from typing import Any, cast

import pytest
from pydantic import BaseModel

from dragoman.kit import Activity, Artifact, Context, Host, LlmError, LogLevel, NoModel, SkillSlot, Thread, Usage
from dragoman.kit.testing import ScriptedLlm


class Claim(BaseModel):
    amount: int | None = None


@dataclass
class Note:
    text: str


class Listener:
    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    async def update(self, text: str, percent: float | None) -> None:
        self.heard.append((text, percent))

    async def log(self, text: str, level: LogLevel) -> None:
        self.heard.append((text, level))

    async def artifact(self, artifact: Artifact, *, append: bool, last_chunk: bool) -> None:
        self.heard.append((artifact.name, append, last_chunk))

    async def activity(self, activity: Activity, tools: tuple[str, ...]) -> None:
        self.heard.append((activity, tools))


@pytest.mark.parametrize(
    "value", [Claim(amount=1), Note("x"), "text", 1.5, True, ["a"], {"a": 1}, Thread.from_user("x")]
)
async def test_state_gives_back_what_was_saved_as_its_type(value: Any) -> None:
    state = Context("t", "c").state.task()

    await state.save("key", value)

    assert await state.load("key", type(value)) == value


async def test_the_two_scopes_do_not_see_each_other() -> None:
    state = Context("t", "c").state
    await state.task().save("key", 1)

    assert await state.session().load("key", int) is None
    await state.task().remove("key")
    assert await state.task().load("key", int) is None


async def test_a_value_of_another_type_is_a_clear_error() -> None:
    state = Context("t", "c").state.task()
    await state.save("claim", "lunch")

    with pytest.raises(ValueError, match="task state 'claim' is not a Claim"):
        await state.load("claim", Claim)


async def test_what_cannot_be_kept_is_refused_when_it_is_saved() -> None:
    with pytest.raises(TypeError, match="cannot be written as JSON"):
        await Context("t", "c").state.task().save("key", object())
    with pytest.raises(ValueError, match="1 to 200 characters"):
        await Context("t", "c").state.task().save("", 1)


async def test_progress_goes_to_the_host() -> None:
    listener = Listener()
    progress = Context("t", "c", host=Host(progress=listener)).progress

    await progress.update("half", 50)
    await progress.log("found nothing", "warning")
    await progress.artifact(Artifact.from_text("draft", "x"), append=True, last_chunk=False)

    assert listener.heard == [("half", 50), ("found nothing", "warning"), ("draft", True, False)]
    with pytest.raises(ValueError, match="percent"):
        await progress.update("x", 101)
    with pytest.raises(ValueError, match="level"):
        await progress.log("x", cast("Any", "loud"))


def test_a_slot_is_there_only_when_a_task_is_resumed() -> None:
    with pytest.raises(LookupError, match="no slot"):
        _ = Context("t", "c").slot

    assert Context("t", "c", slot=SkillSlot("x")).slot == SkillSlot("x")


def test_asking_for_a_model_that_is_not_there_is_a_clear_error() -> None:
    with pytest.raises(NoModel) as caught:
        Context("t", "c").llm(str)

    assert isinstance(caught.value, LlmError)
    assert caught.value.details == {"reason": "NO_MODEL"}


async def test_what_the_models_of_a_turn_use_is_added_up() -> None:
    ctx = Context("t", "c", llm=ScriptedLlm("a", "b"), instructions="be brief")

    await ctx.llm(str).run("x")
    await ctx.worker(str).run("y")

    assert ctx.usage == Usage(20, 10, 2)


async def test_no_update_is_lost_between_calls_at_once() -> None:
    state = Context("t", "c").state.session()

    async def add(number: int) -> None:
        await state.update("seen", lambda seen: [*(seen or []), number])

    await asyncio.gather(*(add(number) for number in range(20)))

    assert await state.load("seen", list[int]) == list(range(20))


async def test_an_update_is_given_the_value_as_its_type_and_gives_back_what_it_made() -> None:
    state = Context("t", "c").state.task()

    first = await state.update("claim", lambda claim: claim or Claim(amount=1), Claim)
    second = await state.update("claim", lambda claim: Claim(amount=((claim or Claim()).amount or 0) + 1), Claim)

    assert (first, second) == (Claim(amount=1), Claim(amount=2))
    assert await state.update("claim", lambda _: None) is None
    assert await state.load("claim", Claim) is None


async def test_an_update_that_fails_changes_nothing() -> None:
    state = Context("t", "c").state.task()
    await state.save("seen", [1])

    def spoil(seen: list[int]) -> object:
        seen.append(2)
        return object()

    async def late(seen: object) -> object:
        return seen

    with pytest.raises(TypeError, match="cannot be written as JSON"):
        await state.update("seen", spoil)
    with pytest.raises(TypeError, match="plain function"):
        await state.update("seen", late)
    with pytest.raises(ValueError, match="task state 'seen' is not a Claim"):
        await state.update("seen", lambda claim: claim, Claim)

    assert await state.load("seen", list[int]) == [1]


async def test_to_save_nothing_is_to_remove() -> None:
    state = Context("t", "c").state.task()
    await state.save("key", 1)
    await state.save("key", None)

    assert await state.load("key", int) is None
