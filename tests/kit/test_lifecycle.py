# ruff: noqa: ARG002 a handler takes its context and its content, also where it needs neither
from itertools import product

import pytest

from dragoman.kit import (
    TRANSITIONS,
    Activity,
    Completed,
    Content,
    Context,
    Failed,
    InMemoryTasks,
    InputRequired,
    InvalidTransition,
    OnInputResult,
    OnRequestResult,
    Rejected,
    SkillHandler,
    SkillSlot,
    TaskEvent,
    TaskState,
    check_step,
    skill,
)
from dragoman.kit.testing import RecordingTool, ScriptedLlm, call, runtime_of

S = TaskState
STEPS = {
    (S.IDLE, S.PROCESSING),
    (S.PROCESSING, S.INPUT_REQUIRED),
    (S.PROCESSING, S.COMPLETED),
    (S.PROCESSING, S.FAILED),
    (S.PROCESSING, S.REJECTED),
    (S.INPUT_REQUIRED, S.PROCESSING),
    (S.IDLE, S.CANCELLED),
    (S.PROCESSING, S.CANCELLED),
    (S.INPUT_REQUIRED, S.CANCELLED),
}


@pytest.mark.parametrize(("current", "wanted"), list(product(TaskState, TaskState)))
def test_a_task_takes_these_steps_and_no_others(current: TaskState, wanted: TaskState) -> None:
    if (current, wanted) in STEPS:
        check_step("t", current, wanted)
        return

    with pytest.raises(InvalidTransition) as caught:
        check_step("t", current, wanted)

    assert caught.value.details == {"reason": "INVALID_TRANSITION", "current": current, "wanted": wanted}


class Turns(SkillHandler):
    """Uses a tool, asks, and ends as it is told to."""

    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        if content.text == "reject":
            return Rejected("never")
        await ctx.worker(str, tools=[RecordingTool("look")]).run("look")
        return InputRequired("And now?", SkillSlot("now"))

    async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
        return Completed() if content.text == "complete" else Failed("no")


@pytest.mark.req("KIT-5")
async def test_a_task_goes_through_these_states_tells_what_it_is_busy_with_and_takes_no_other_step() -> None:
    tasks, llm = InMemoryTasks(), ScriptedLlm(call("look"), "seen", call("look"), "seen")
    begun = tasks.open(None, None).state
    async with runtime_of(skill(id="turns", description="Takes turns.")(Turns), llm=llm, tasks=tasks) as runtime:
        seen: dict[str, list[object]] = {}
        for said in ("complete", "fail", "reject"):
            task = await runtime.send(said)
            if task.state is S.INPUT_REQUIRED:
                task = await runtime.send(said, task_id=task.id)
            seen[said] = [_stage(event) async for event in runtime.subscribe(task.id)]

    asked = [S.PROCESSING, Activity.AWAITING_TOOL, Activity.EXECUTING, S.INPUT_REQUIRED, S.PROCESSING]
    assert begun is S.IDLE
    assert seen == {
        "complete": [*asked, S.COMPLETED],
        "fail": [*asked, S.FAILED],
        "reject": [S.PROCESSING, S.REJECTED],
    }
    assert {(a, b) for a, after in TRANSITIONS.items() for b in after} == STEPS


def _stage(event: TaskEvent) -> object:
    return getattr(event, "state", None) or getattr(event, "activity", None)


def test_the_table_is_total_and_knows_its_ends() -> None:
    assert set(TRANSITIONS) == set(TaskState)
    assert {state for state in TaskState if state.terminal} == {S.COMPLETED, S.FAILED, S.REJECTED, S.CANCELLED}
    assert {state for state in TaskState if state.at_rest} - {state for state in TaskState if state.terminal} == {
        S.INPUT_REQUIRED
    }
