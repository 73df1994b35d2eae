"""The budget of a session context: one long item never takes the place of the others."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dragoman.services.memory.budget import Fitted, fit, fit_both, size_of

TEXTS = ("text",)
LENGTHS = st.lists(st.integers(min_value=0, max_value=3_000), max_size=30)


def items(*lengths: int) -> list[dict[str, Any]]:
    return [{"id": f"{place:02}", "text": "a" * length, "truncated": False} for place, length in enumerate(lengths)]


def test_a_long_item_is_shortened_and_the_others_stay_whole() -> None:
    long, *short = items(50_000, 100, 100)

    fitted = fit([long, *short], TEXTS, 6_000)

    assert (fitted.omitted, fitted.items[1:]) == (0, short)
    assert (fitted.items[0]["truncated"], fitted.items[0]["text"][-1]) == (True, "…")
    assert 5_500 < size_of(fitted.items[0]) < 5_900


def test_the_lowest_ranked_are_omitted_where_there_is_no_room_for_all() -> None:
    fitted = fit(items(*[5_000] * 10), TEXTS, 1_000)

    assert [one["id"] for one in fitted.items] == ["00", "01", "02"]
    assert fitted.omitted == 7


def test_one_list_gets_what_the_other_leaves_and_no_more_than_its_half_otherwise() -> None:
    long, short = Fitted(items(*[900] * 10)), Fitted(items(100))

    (most, all_of_it), (half, other) = (
        fit_both(first, second, (TEXTS, TEXTS), 4_000) for first, second in ((long, short), (long, long))
    )

    assert all_of_it == short
    assert most.characters > 3_500
    assert 1_900 < half.characters <= 2_000
    assert half == other


@given(first=LENGTHS, second=LENGTHS, budget=st.integers(min_value=500, max_value=20_000))
def test_what_is_kept_is_within_the_budget_in_its_order_and_nothing_gets_lost_silently(
    first: list[int], second: list[int], budget: int
) -> None:
    both = (Fitted(items(*first)), Fitted(items(*second)))

    fitted = fit_both(*both, (TEXTS, TEXTS), budget)

    assert sum(one.characters for one in fitted) <= budget
    for before, after in zip(both, fitted, strict=True):
        ids = [one["id"] for one in after.items]
        assert ids == [one["id"] for one in before.items[: len(ids)]]
        assert len(ids) + after.omitted == len(before.items)
        assert ids or not before.items
        whole = {one["id"]: one for one in before.items}
        assert all(one["truncated"] or one == whole[one["id"]] for one in after.items)
