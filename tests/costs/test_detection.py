"""Detection of anomalies, on series whose truth is known."""

from datetime import date, timedelta

import pytest

from dragoman_costs.anomalies.backtest import backtest
from dragoman_costs.anomalies.detection import Sensitivity, Shape, detect

MONDAY = date(2026, 6, 1)
WEEK = (100.0, 104.0, 102.0, 99.0, 101.0, 60.0, 58.0)


def series(count: int) -> list[float]:
    """A steady series with quiet weekends."""
    return [WEEK[index % 7] + (index * 7919 % 5 - 2) * 0.4 for index in range(count)]


def shapes(amounts: list[float]) -> list[tuple[int, Shape]]:
    return [((event.day - MONDAY).days, event.shape) for event in detect(MONDAY, amounts)]


def test_a_steady_series_with_quiet_weekends_has_no_anomaly() -> None:
    assert shapes(series(120)) == []


def test_a_day_that_costs_twice_as_much_is_a_spike_with_its_excess() -> None:
    amounts = series(80)
    amounts[63] *= 2

    (event,) = detect(MONDAY, amounts)

    assert (event.shape, event.day, event.last_day) == (Shape.SPIKE, *[MONDAY + timedelta(days=63)] * 2)
    assert event.excess == pytest.approx(100, rel=0.05)


def test_a_working_day_amount_on_a_sunday_is_a_spike() -> None:
    amounts = series(80)
    amounts[69] = 100.0

    assert shapes(amounts) == [(69, Shape.SPIKE)]


def test_a_day_without_use_is_a_drop() -> None:
    amounts = series(80)
    amounts[60] = 5.0

    assert shapes(amounts) == [(60, Shape.DROP)]


@pytest.mark.parametrize(("factor", "shape"), [(1.6, Shape.STEP_UP), (0.5, Shape.STEP_DOWN)])
def test_a_step_is_reported_once_and_is_normal_afterwards(factor: float, shape: Shape) -> None:
    amounts = series(110)
    amounts[60:] = [amount * factor for amount in amounts[60:]]

    assert shapes(amounts) == [(60, shape)]


def test_slow_growth_is_no_anomaly() -> None:
    assert shapes([amount * 1.004**index for index, amount in enumerate(series(150))]) == []


def test_the_past_does_not_learn_from_an_anomaly() -> None:
    """Two spikes a week apart are two: the first has not become what is expected."""
    amounts = series(90)
    amounts[63] *= 3
    amounts[70] *= 3

    assert shapes(amounts) == [(63, Shape.SPIKE), (70, Shape.SPIKE)]


def test_what_costs_little_is_no_anomaly_however_odd_it_is() -> None:
    amounts = [amount / 1000 for amount in series(80)]
    amounts[63] *= 50

    assert shapes(amounts) == []


def test_a_service_without_a_past_is_new_once() -> None:
    events = detect(MONDAY, [40.0] * 60, begins=True)

    assert [(event.day, event.shape) for event in events] == [(MONDAY, Shape.NEW)]
    assert detect(MONDAY, [40.0] * 60) == []


def test_a_series_that_is_nothing_or_short_has_no_anomaly() -> None:
    assert detect(MONDAY, []) == []
    assert detect(MONDAY, [0.0] * 100) == []
    assert detect(MONDAY, [1.0, 500.0, 1.0]) == []


def test_the_same_series_gives_the_same_events_and_a_longer_one_begins_with_them() -> None:
    amounts = series(120)
    amounts[63] *= 2
    amounts[90] *= 2

    first = detect(MONDAY, amounts[:80])

    assert detect(MONDAY, amounts)[: len(first)] == first


def test_surprises_of_known_size_are_found_with_few_false_ones() -> None:
    """Back-test over seeds that the defaults were not chosen on; docs/costs-insight.md has the whole table."""
    score = backtest(range(100, 104), days=150)

    assert score.precision >= 0.85, score
    # A surprise of 15% lies within the noise of many services, and is the least that is told of.
    large = {found: sum(count for (size, hit), count in score.by_size.items() if hit is found and size >= 0.25)
             for found in (True, False)}  # fmt: skip
    assert large[True] / (large[True] + large[False]) >= 0.85, score
    assert score.recall >= 0.65, score


def test_a_higher_sensitivity_finds_more_and_is_wrong_more_often() -> None:
    keen = backtest([101], days=120, sensitivity=Sensitivity(least_score=3.0, least_share=0.05, least_amount=1.0))
    calm = backtest([101], days=120)

    assert keen.recall >= calm.recall
    assert keen.false > calm.false
