from itertools import product

import pytest

from dragoman.kit import TRANSITIONS, InvalidTransition, TaskState, check_step

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


@pytest.mark.req("KIT-5")
@pytest.mark.parametrize(("current", "wanted"), list(product(TaskState, TaskState)))
def test_a_task_takes_these_steps_and_no_others(current: TaskState, wanted: TaskState) -> None:
    if (current, wanted) in STEPS:
        check_step("t", current, wanted)
        return

    with pytest.raises(InvalidTransition) as caught:
        check_step("t", current, wanted)

    assert caught.value.details == {"reason": "INVALID_TRANSITION", "current": current, "wanted": wanted}


def test_the_table_is_total_and_knows_its_ends() -> None:
    assert set(TRANSITIONS) == set(TaskState)
    assert {state for state in TaskState if state.terminal} == {S.COMPLETED, S.FAILED, S.REJECTED, S.CANCELLED}
    assert {state for state in TaskState if state.at_rest} - {state for state in TaskState if state.terminal} == {
        S.INPUT_REQUIRED
    }
