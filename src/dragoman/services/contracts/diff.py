"""What has to be taken away and put in to make one sequence of another (Myers, 1986), within bounds."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

# About a second of work.
_MOST_STEPS: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class Edit:
    """`old[start:end]` becomes `new[start:end]`; the two are equal where nothing `changed`."""

    old: tuple[int, int]
    new: tuple[int, int]
    changed: bool


@dataclass(slots=True)
class Effort:
    """The steps that are left for all comparisons of one request."""

    steps: int = _MOST_STEPS


def edits(old: Sequence[Hashable], new: Sequence[Hashable], *, most: int, effort: Effort | None = None) -> list[Edit]:
    """The whole of both sequences in order, equal and changed stretches in turn.

    With up to `most` single changes the result has as few as possible; with more, or when the effort is used up, all
    between the common beginning and the common end is one change, since nobody would read the rest as anything else.
    """
    effort = effort or Effort()
    # Numbers compare in no time, blocks of words do not.
    numbers: dict[Hashable, int] = {}
    old, new = ([numbers.setdefault(one, len(numbers)) for one in given] for given in (old, new))
    front = common_length(old, new)
    back = common_length(old[front:][::-1], new[front:][::-1])
    inner_old, inner_new = old[front : len(old) - back], new[front : len(new) - back]
    steps = _shortest(inner_old, inner_new, most, effort) if inner_old and inner_new else None
    matches = [(x + front, y + front) for x, y in steps or ()]
    pairs = [(place, place) for place in range(front)]
    pairs += matches
    pairs += [(len(old) - back + place, len(new) - back + place) for place in range(back)]
    return list(_stretches(pairs, len(old), len(new)))


def common_length(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """For how long two sequences begin alike."""
    length = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        length += 1
    return length


def _shortest(
    old: Sequence[Hashable], new: Sequence[Hashable], most: int, effort: Effort
) -> list[tuple[int, int]] | None:
    """The places that stay, as pairs; None when it takes more changes or more effort to get there."""
    reached = {1: 0}
    trace: list[dict[int, int]] = []
    for distance in range(min(most, len(old) + len(new)) + 1):
        trace.append(dict(reached))
        for diagonal in range(-distance, distance + 1, 2):
            down = diagonal == -distance or (diagonal != distance and reached[diagonal - 1] < reached[diagonal + 1])
            x = reached[diagonal + 1] if down else reached[diagonal - 1] + 1
            start = x
            while x < len(old) and x - diagonal < len(new) and old[x] == new[x - diagonal]:
                x += 1
            reached[diagonal] = x
            effort.steps -= 1 + x - start
            if effort.steps <= 0:
                return None
            if x >= len(old) and x - diagonal >= len(new):
                return _walk_back(trace, len(old), len(new))
    return None


def _walk_back(trace: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    kept: list[tuple[int, int]] = []
    for distance in range(len(trace) - 1, -1, -1):
        reached, diagonal = trace[distance], x - y
        down = diagonal == -distance or (diagonal != distance and reached[diagonal - 1] < reached[diagonal + 1])
        before = diagonal + 1 if down else diagonal - 1
        from_x = reached[before]
        from_y = from_x - before
        while x > max(from_x, 0) and y > max(from_y, 0):
            x, y = x - 1, y - 1
            kept.append((x, y))
        x, y = from_x, from_y
    return kept[::-1]


def _stretches(pairs: list[tuple[int, int]], old_length: int, new_length: int) -> Iterator[Edit]:
    """Pairs that follow each other as one stretch, and what lies between as another."""
    at_old = at_new = start_old = start_new = 0
    for x, y in [*pairs, (old_length, new_length)]:
        if (x, y) != (at_old, at_new):
            if at_old > start_old:
                yield Edit((start_old, at_old), (start_new, at_new), changed=False)
            yield Edit((at_old, x), (at_new, y), changed=True)
            start_old, start_new = x, y
        at_old, at_new = x + 1, y + 1
    if old_length > start_old:
        yield Edit((start_old, old_length), (start_new, new_length), changed=False)
