from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.infra.limits import UNLIMITED, Limit, Verdict, limit_headers
from dragoman.infra.limits.memory import MemoryLimits
from dragoman.infra.limits.script import Outcome

# The start of a minute.
START = 1_700_000_040.0


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def minute(quota: int, name: str = "user") -> Limit:
    return Limit(name, "alice", quota)


def admitted(memory: MemoryLimits, limit: Limit, *, tries: int) -> int:
    return sum(memory.check("acme", [limit])[0] == Outcome.ALLOWED for _ in range(tries))


@pytest.mark.req("GW-009", "GW-010", "GW-011", "GW-209")
@pytest.mark.parametrize("quota", [1, 100, 300, 1_000])
def test_from_a_fresh_start_exactly_the_quota_passes(clock: Clock, quota: int) -> None:
    memory = MemoryLimits(clock=clock)

    assert admitted(memory, minute(quota), tries=quota + 50) == quota


def test_the_window_before_counts_for_the_share_of_it_in_view(clock: Clock) -> None:
    memory = MemoryLimits(clock=clock)
    admitted(memory, minute(100), tries=100)

    clock.now += 60 + 15

    assert admitted(memory, minute(100), tries=100) == 25


@pytest.mark.req("GW-010")
@given(quota=st.integers(1, 20), gaps=st.lists(st.integers(0, 20_000), min_size=1, max_size=150))
def test_no_minute_of_the_clock_admits_more_than_the_quota(quota: int, gaps: list[int]) -> None:
    clock = Clock()
    memory = MemoryLimits(clock=clock)
    minutes: Counter[int] = Counter()

    for gap_ms in gaps:
        clock.now += gap_ms / 1_000
        minutes[int(clock.now // 60)] += admitted(memory, minute(quota), tries=3)

    assert max(minutes.values()) <= quota


def test_sixty_seconds_across_two_minutes_can_admit_nearly_twice_the_quota(clock: Clock) -> None:
    """What the estimate costs: a burst at the end of a minute counts as if it were spread over it."""
    memory = MemoryLimits(clock=clock)
    clock.now += 59
    total = admitted(memory, minute(100), tries=200)

    for _ in range(59):
        clock.now += 1
        total += admitted(memory, minute(100), tries=200)

    assert total == 196


@pytest.mark.parametrize(
    ("quota", "used_after_s", "told"),
    [
        (1, 0, 120),  # the only one must leave the view altogether
        (60, 0, 61),  # a second into the next window one of sixty has left
        (60, 59.5, 2),
        (100, 30, 31),  # 30.6, and whole seconds
    ],
)
@pytest.mark.req("GW-010")
def test_a_full_window_tells_when_the_next_has_room(clock: Clock, quota: int, used_after_s: float, told: int) -> None:
    memory = MemoryLimits(clock=clock)
    clock.now += used_after_s
    admitted(memory, minute(quota), tries=quota)

    reply = memory.check("acme", [minute(quota)])

    assert (reply[0], reply[4]) == (Outcome.REFUSED, told)


@pytest.mark.req("GW-010")
@given(
    quotas=st.lists(st.integers(1, 20), min_size=1, max_size=3),
    gaps=st.lists(st.integers(0, 40_000), min_size=1, max_size=80),
)
def test_one_passes_after_the_time_told_and_none_a_second_before(quotas: list[int], gaps: list[int]) -> None:
    clock = Clock()
    memory = MemoryLimits(clock=clock)
    limits = [minute(quota, f"limit-{place}") for place, quota in enumerate(quotas)]

    for gap_ms in gaps:
        clock.now += gap_ms / 1_000
        reply = memory.check("acme", limits)
        if reply[0] == Outcome.REFUSED:
            refused_at = clock.now
            clock.now = refused_at + reply[4] - 1.001
            if clock.now >= refused_at:
                assert memory.check("acme", limits)[0] == Outcome.REFUSED
            clock.now = refused_at + reply[4]
            assert memory.check("acme", limits)[0] == Outcome.ALLOWED


@given(gaps=st.lists(st.integers(0, 30_000), min_size=1, max_size=100))
def test_all_of_the_quota_is_back_after_the_reset(gaps: list[int]) -> None:
    clock = Clock()
    memory = MemoryLimits(clock=clock)
    reply = memory.check("acme", [minute(5)])
    for gap_ms in gaps:
        clock.now += gap_ms / 1_000
        reply = memory.check("acme", [minute(5)])

    clock.now += reply[3]

    assert admitted(memory, minute(5), tries=10) == 5


@pytest.mark.req("GW-209")
@pytest.mark.parametrize(("quota", "share", "granted"), [(100, 4, 25), (3, 4, 1), (0, 4, 0)])
def test_each_process_grants_its_share_and_at_least_one(clock: Clock, quota: int, share: int, granted: int) -> None:
    memory = MemoryLimits(clock=clock, share=share)

    assert admitted(memory, minute(quota), tries=200) == granted


@pytest.mark.req("GW-209")
def test_the_table_is_bounded_and_keeps_who_is_counted_now(clock: Clock) -> None:
    memory = MemoryLimits(clock=clock, max_keys=10)
    busy = minute(1_000, "busy")

    for place in range(100):
        memory.check("acme", [busy, minute(5, f"limit-{place}")])

    assert len(memory) == 10
    assert memory.check("acme", [busy])[2] == 1_000 - 101


def test_headers_say_the_limit_in_both_manners() -> None:
    verdict = Verdict(allowed=True, limit=minute(300), remaining=12, reset_s=34, retry_after_s=0)

    assert limit_headers(verdict) == [
        (b"ratelimit", b'"user";r=12;t=34'),
        (b"ratelimit-policy", b'"user";q=300;w=60'),
        (b"x-ratelimit-limit", b"300"),
        (b"x-ratelimit-remaining", b"12"),
        (b"x-ratelimit-reset", b"34"),
    ]


@pytest.mark.req("GW-010")
def test_a_refusal_says_when_to_come_back() -> None:
    verdict = Verdict(allowed=False, limit=minute(300), remaining=0, reset_s=90, retry_after_s=31)

    assert limit_headers(verdict)[-1] == (b"retry-after", b"31")


def test_a_name_cannot_break_out_of_its_header() -> None:
    verdict = Verdict(allowed=True, limit=minute(1, 'a"\\\r\né'), remaining=0, reset_s=1, retry_after_s=0)

    assert limit_headers(verdict)[0] == (b"ratelimit", b'"a\\"\\\\???";r=0;t=1')


def test_no_limit_no_headers() -> None:
    assert limit_headers(Verdict(allowed=False, limit=UNLIMITED, remaining=0, reset_s=0, retry_after_s=0)) == []
