from typing import Any, Literal

import pytest
from pydantic import BaseModel

from dragoman.kit import (
    Agent,
    Completed,
    Content,
    Context,
    Folders,
    Form,
    Generation,
    InputRequired,
    OnInputResult,
    OnRequestResult,
    Runtime,
    SkillHandler,
    SkillSlot,
    TaskState,
    skill,
)
from dragoman.kit.testing import run_skill


class Person(BaseModel):
    name: str


class Parcel(BaseModel):
    weight: int
    fragile: bool = False
    by: Literal["train", "ship"] = "train"


WHO = Form.of("Who is it for?", Person)
WHAT = Form.of("What is in it?", Parcel)


@skill(id="parcels", description="Sends parcels.")
class Parcels(SkillHandler):
    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        del ctx, content
        return InputRequired("For whom, and what?", SkillSlot("parcel"), asks={"who": WHO, "what": WHAT})

    async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
        del ctx
        return Completed(f"{content.data} {content.text}")


@skill(id="greet", description="Greets.")
class Greet(SkillHandler):
    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        del ctx, content
        return InputRequired("Who are you?", SkillSlot("name"), asks={"who": WHO})

    async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
        del ctx
        return Completed(str(content.data))


async def test_a_skill_is_given_all_answers_at_once_however_they_came() -> None:
    weight = {"weight": 2}
    together = await run_skill(Parcels, "send", {"who": {"name": "Ada"}, "what": weight})
    apart = await run_skill(Parcels, "send", {"what": weight}, {"who": {"name": "Ada"}, "more": 1})

    assert together.state is apart.state is TaskState.COMPLETED
    for task in (together, apart):
        assert "'who': {'name': 'Ada'}" in task.text
        assert "'what': {'weight': 2}" in task.text


async def test_what_is_left_is_asked_for_and_what_does_not_fit_is_asked_again() -> None:
    async with Runtime(Agent("post", "Sends.", skills=[Parcels])) as runtime:
        asked = await runtime.send("send")
        wrong = await runtime.send({"what": {"weight": "much"}}, task_id=asked.id)
        left = await runtime.send({"who": {"name": "Ada"}}, task_id=asked.id)

    assert [task.state for task in (asked, wrong, left)] == [TaskState.INPUT_REQUIRED] * 3
    assert wrong.text == "Who is it for?\nWhat is in it?"
    assert left.text == "What is in it?"


async def test_words_answer_a_question_for_one_text_and_else_go_to_the_skill_as_they_are() -> None:
    greeted = await run_skill(Greet, "hello", "Ada")
    unsure = await run_skill(Parcels, "send", "a piano for Ada")

    assert greeted.text == "({'who': {'name': 'Ada'}},)"
    assert unsure.text == "() a piano for Ada"


@pytest.mark.parametrize(
    ("question", "answer", "fault"),
    [
        (WHAT, {"weight": 2, "fragile": True, "by": "ship"}, None),
        (WHAT, {"weight": 2, "other": []}, None),
        (WHAT, {}, "lacks weight"),
        (WHAT, {"weight": True}, "weight must be of type integer"),
        (WHAT, {"weight": 2, "fragile": 1}, "fragile must be of type boolean"),
        (WHAT, [], "must be an object"),
        (Generation(message="Say hello."), "hello", None),
        (Generation(message="Say hello."), {"text": "hello"}, "must be text"),
        (Folders(), [{"uri": "file:///a"}], None),
        (Folders(), ["file:///a"], "must be a list of objects with a uri"),
    ],
)
def test_an_answer_fits_or_says_why_not(question: Any, answer: Any, fault: str | None) -> None:
    assert question.find_fault(answer) == fault


def test_a_form_has_flat_fields_alone() -> None:
    class Nested(BaseModel):
        parcel: Parcel

    with pytest.raises(ValueError, match="'parcel' is no field of a form"):
        Form.of("What?", Nested)


def test_a_slot_survives_being_written_down() -> None:
    slot = SkillSlot(
        "parcel", asks={"who": WHO, "say": Generation(message="Hi?"), "where": Folders()}, answers={"a": 1}
    )

    again = SkillSlot.load(slot.dump())

    assert (again, again.asks, again.answers) == (slot, slot.asks, slot.answers)
    assert SkillSlot("x").dump() == {"value": "x"}
