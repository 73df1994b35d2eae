"""Chaos runs: six faults in both lanes, and sixty with remote workers and a disk that fills; the same checks."""

from collections.abc import Callable

import pytest

from tests.chaos.faults import draw
from tests.chaos.siege import Plan, Siege

SHORT = Plan(
    seed=4,
    faults=6,
    longest_s=2.5,
    gap_s=0.3,
    clients=5,
    pause_s=0.05,
    remote=False,
    disk_mb=None,
    tasks_between=3,
)
LONG = Plan(seed=11, faults=60)


@pytest.mark.req("ORC-IDM-1")
def test_six_faults_lose_stick_and_double_nothing(record_property: Callable[[str, object], None]) -> None:
    outcome = Siege(SHORT, print).run()

    record_property("figures", outcome.figures)
    assert outcome.good, outcome.table()


@pytest.mark.external
@pytest.mark.timeout(1800)
@pytest.mark.req("ORC-IDM-1")
def test_sixty_faults_lose_stick_and_double_nothing(record_property: Callable[[str, object], None]) -> None:
    outcome = Siege(LONG, print).run()

    record_property("figures", outcome.figures)
    assert outcome.good, outcome.table()


def test_the_same_seed_gives_the_same_faults() -> None:
    first, again, other = (draw(seed, 50, ["s1", "s2", "w1"], longest_s=10, gap_s=2, disk=True) for seed in (7, 7, 8))

    assert first == again != other
