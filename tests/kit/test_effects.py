# ruff: noqa: ARG002 a handler takes its context and its content, also where it needs neither
import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from dragoman.errors import Conflict, UpstreamUnavailable
from dragoman.kit import (
    AttemptFenced,
    Completed,
    Content,
    Context,
    EffectAnswer,
    EffectUnknown,
    Host,
    InMemoryEffects,
    OnRequestResult,
    SkillHandler,
    TaskState,
    ToolContext,
    skill,
    take_turn,
    tool,
)
from dragoman.kit.testing import RecordingEffects, ScriptedLlm, agent_of, call, run_skill

Json = dict[str, Any]


class Bank:
    """Counts what was charged, and fails as it is told to."""

    def __init__(self, *failures: BaseException) -> None:
        self.failures, self.keys = list(failures), list[str]()

    async def charge(self, key: str) -> Json:
        self.keys.append(key)
        if self.failures:
            raise self.failures.pop(0)
        return {"receipt": len(self.keys)}


async def test_a_step_that_was_done_gives_its_first_outcome() -> None:
    bank, ledger = Bank(), InMemoryEffects()
    first, second = (Context("t", "c", host=Host(effects=ledger)) for _ in range(2))

    outcomes = [await ctx.effects.once("charge", {"eur": 5}, bank.charge) for ctx in (first, first, second)]
    other = await second.effects.once("charge", {"eur": 6}, bank.charge)

    assert outcomes == [{"receipt": 1}] * 3
    assert other == {"receipt": 2}
    assert len(set(bank.keys)) == 2


async def test_equal_calls_at_once_wait_for_the_first() -> None:
    bank, ctx = Bank(), Context("t", "c")

    outcomes = await asyncio.gather(*(ctx.effects.once("charge", {"eur": 5}, bank.charge) for _ in range(20)))

    assert outcomes == [{"receipt": 1}] * 20


async def test_a_step_without_an_outcome_is_never_guessed() -> None:
    bank, ctx = Bank(UpstreamUnavailable("the bank"), RuntimeError("cut off")), Context("t", "c")
    for failure in (UpstreamUnavailable, EffectUnknown):
        with pytest.raises(failure):
            await ctx.effects.once("charge", {"eur": 5}, bank.charge)

    assert len(bank.keys) == 1


async def test_a_refused_step_was_not_done_and_may_be_tried_again() -> None:
    bank, ctx = Bank(Conflict("no funds")), Context("t", "c")
    with pytest.raises(Conflict):
        await ctx.effects.once("charge", {"eur": 5}, bank.charge)

    assert await ctx.effects.once("charge", {"eur": 5}, bank.charge) == {"receipt": 2}


async def test_the_other_side_may_know_what_became_of_it() -> None:
    async def nothing(key: str) -> None:
        return None

    async def something(key: str) -> Json:
        return {"receipt": 7}

    async def once(find: Callable[[str], Awaitable[Json | None]] | None, *, repeatable: bool = False) -> Json:
        ctx = Context("t", "c", host=Host(effects=InMemoryEffects(unknown=["charge"])))
        return await ctx.effects.once("charge", {}, Bank().charge, find=find, repeatable=repeatable)

    assert await once(something) == {"receipt": 7}
    assert await once(nothing) == {"receipt": 1}
    assert await once(None, repeatable=True) == {"receipt": 1}


async def test_what_cannot_be_written_down_is_refused_before_anything_is_done() -> None:
    bank, effects = Bank(), Context("t", "c").effects

    with pytest.raises(TypeError, match="cannot be written as JSON"):
        await effects.once("charge", {"what": object()}, bank.charge)
    with pytest.raises(TypeError, match="is an object"):
        await effects.once("charge", cast("Json", ["list"]), bank.charge)
    with pytest.raises(ValueError, match="1 to 200 characters"):
        await effects.once("", {}, bank.charge)

    assert bank.keys == []


async def test_an_outcome_is_kept_as_json() -> None:
    async def booked(key: str) -> Json:
        return {"on": datetime(2026, 5, 1, tzinfo=UTC)}

    assert await Context("t", "c").effects.once("book", {}, booked) == {"on": "2026-05-01T00:00:00Z"}


@skill(id="pay", description="Pays.")
class Pay(SkillHandler):
    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        async def charge(key: str) -> Json:
            return {"paid": content.text}

        try:
            charged = await ctx.effects.once("charge", {"eur": content.text}, charge)
        except Exception as error:  # noqa: BLE001 as careless as skills are
            charged = {"paid": repr(error)}
        return Completed(charged["paid"])


@pytest.mark.parametrize(
    ("done", "outcome", "told", "performed"),
    [(True, {"paid": "by hand"}, "by hand", 0), (False, {}, "5", 1)],
)
async def test_a_person_is_asked_and_the_turn_runs_again_with_the_answer(
    done: bool, outcome: Json, told: str, performed: int
) -> None:
    ledger = RecordingEffects(unknown=["charge"])
    answer = {"effect": {"step": "charge", "done": done, "outcome": outcome}}

    asked = await run_skill(Pay, "5", "what?", effects=RecordingEffects(unknown=["charge"]))
    task = await run_skill(Pay, "5", "what?", {"effect": {"step": "other", "done": True}}, answer, effects=ledger)

    assert asked.state is TaskState.INPUT_REQUIRED
    assert (task.state, task.text) == (TaskState.COMPLETED, told)
    assert ledger.performed == [("charge", {"eur": "5"})] * performed


async def test_a_tool_of_a_model_asks_the_person_and_not_the_model() -> None:
    bank = Bank()

    @tool
    async def charge(eur: int, ctx: ToolContext) -> Json:
        """Charge an amount."""
        return await ctx.effects.once("charge", {"eur": eur}, bank.charge)

    @skill(id="clerk", description="Pays.")
    class Clerk(SkillHandler):
        async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
            return Completed(await ctx.worker(str, tools=[charge]).run(content.text))

    llm = ScriptedLlm([call("charge", eur=5), call("charge", eur=5)], [call("charge", eur=5)], "Paid.")
    task = await run_skill(
        Clerk,
        "pay 5",
        {"effect": {"step": "charge", "done": True, "outcome": {"receipt": 9}}},
        llm=llm,
        effects=RecordingEffects(unknown=["charge"]),
    )

    assert (task.state, task.text, bank.keys) == (TaskState.COMPLETED, "Paid.", [])


class Fenced:
    """What a host's ports do once another process has the task."""

    async def once(self, step: str, request: Json, perform: object, **options: object) -> Json:
        raise AttemptFenced


async def test_a_fenced_attempt_ends_whatever_its_skill_catches() -> None:
    @skill(id="both", description="Pays twice.")
    class Both(SkillHandler):
        async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
            async with asyncio.TaskGroup() as group:
                for _ in range(2):
                    group.create_task(Pay().on_request(ctx, content))
            return Completed("done")

    for handler in (Pay, Both):
        ctx = Context("t", "c", host=Host(effects=Fenced()))
        with pytest.raises(AttemptFenced):
            await take_turn(agent_of(handler), ctx, Content.of("5"))


def test_an_answer_about_an_effect_is_read_from_a_data_part() -> None:
    assert EffectAnswer.find(Content.of({"effect": {"step": "a", "done": True}}), "a") == EffectAnswer(
        step="a", done=True
    )
    for wrong in ("yes", {"effect": "yes"}, {"effect": {"step": "b", "done": True}}, {"effect": {"step": "a"}}):
        assert EffectAnswer.find(Content.of(cast("Any", wrong)), "a") is None
