"""When a failed attempt is followed by another, and after how long."""

import pytest

from dragoman.errors import DragomanError, Forbidden, Internal, RateLimited, UpstreamUnavailable
from dragoman.kit import LlmUnavailable, RemoteUnavailable
from dragoman.services.tasks.engine.retries import RetryPolicy, Verdict

POLICY = RetryPolicy(max_attempts=3, base_s=1.0, most_s=60.0)
AWAY = UpstreamUnavailable("postgresql", retry_after_s=2)


@pytest.mark.parametrize(
    ("error", "repeatable", "left", "verdict"),
    [
        (UpstreamUnavailable("the bank"), True, 1, Verdict.AGAIN),
        (UpstreamUnavailable("the bank"), True, 0, Verdict.EXHAUSTED),
        (UpstreamUnavailable("the bank"), False, 1, Verdict.FINAL),
        (RateLimited("user", retry_after_s=9), True, 1, Verdict.AGAIN),
        (Forbidden("no"), True, 1, Verdict.FINAL),
        (Internal(), True, 1, Verdict.FINAL),
        (None, True, 1, Verdict.AGAIN),
        (None, False, 1, Verdict.FINAL),
        (AWAY, True, 1, Verdict.AGAIN),
        (AWAY, False, 1, Verdict.AGAIN),
        (AWAY, False, 0, Verdict.EXHAUSTED),
    ],
)
def test_the_class_of_an_error_decides_whether_there_is_another_attempt(
    error: DragomanError | None, left: int, verdict: Verdict, *, repeatable: bool
) -> None:
    assert POLICY.judge(error, attempts_left=left, repeatable=repeatable) is verdict


@pytest.mark.parametrize("kind", [UpstreamUnavailable, LlmUnavailable, RemoteUnavailable])
@pytest.mark.parametrize(("asked_s", "waits_s"), [(0, 0.0), (17, 17.0), (100_000, 3600.0)])
def test_what_the_other_side_asks_for_is_waited_whichever_attempt_it_was(
    kind: type[DragomanError], asked_s: int, waits_s: float
) -> None:
    error = _away(kind, asked_s)

    assert [POLICY.delay_s(attempt, error) for attempt in (1, 5)] == [waits_s, waits_s]


@pytest.mark.parametrize("kind", [UpstreamUnavailable, LlmUnavailable, RemoteUnavailable])
def test_a_side_that_asks_for_nothing_is_waited_for_longer_each_time_up_to_a_bound(kind: type[DragomanError]) -> None:
    delays_s = [POLICY.delay_s(attempt, _away(kind, None)) for attempt in (1, 2, 3, 100)]

    assert all(most / 2 <= delay <= most for delay, most in zip(delays_s, (1, 2, 4, 60), strict=True)), delays_s


def test_our_own_database_does_not_say_when_to_come_back() -> None:
    """The 2 s that callers are told are for callers: many tasks fail at once, and must not all return at once."""
    delays_s = {POLICY.delay_s(1, AWAY) for _ in range(100)}

    assert len(delays_s) > 1
    assert max(delays_s) <= 1


def _away(kind: type[DragomanError], asked_s: int | None) -> DragomanError:
    if kind is UpstreamUnavailable:
        return UpstreamUnavailable("the bank", retry_after_s=asked_s)
    named = LlmUnavailable if kind is LlmUnavailable else RemoteUnavailable
    return named("small", "status 503", retry_after_s=asked_s)
