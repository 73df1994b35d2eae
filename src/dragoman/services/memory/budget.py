"""Sharing a budget of characters: small items are left whole, long ones are shortened, the lowest ranked go first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

Item = dict[str, Any]
# An item that is shortened further says too little to be worth its place.
_LEAST: Final = 300
_LEAST_TEXT: Final = 20
_CUT: Final = "…"


@dataclass(frozen=True, slots=True)
class Fitted:
    """Items that fit into a budget, in their order, and how many did not."""

    items: list[Item]
    omitted: int = 0

    @property
    def characters(self) -> int:
        """How much of a budget they take."""
        return sum(map(size_of, self.items))


def size_of(item: Item) -> int:
    """The characters of an item's values."""
    return sum(len(str(value)) for value in item.values())


def fair_cap(sizes: Sequence[int], budget: int) -> int:
    """Return the most that any of these may have for all to fit: what small ones do not need, large ones get."""
    left, cap = budget, budget
    for place, size in enumerate(sorted(sizes)):
        cap = left // (len(sizes) - place)
        if size > cap:
            return cap
        left -= size
    return max(cap, max(sizes, default=0))


def fit(ranked: Sequence[Item], texts: Sequence[str], budget: int) -> Fitted:
    """Fit items into a budget, best first: shorten the fields named in `texts`, and omit the last where it must be.

    An item that was shortened has `truncated` set. No item, however long, takes the place of another.
    """
    sizes = [size_of(item) for item in ranked]
    count = len(ranked)
    while count > 1 and fair_cap(sizes[:count], budget) < min(_LEAST, max(sizes[:count])):
        count -= 1
    cap = fair_cap(sizes[:count], budget)
    shortened = [_shortened(item, texts, cap) for item in ranked[:count]]
    items = [item for item in shortened if item is not None]
    return Fitted(items, len(ranked) - len(items))


def fit_both(first: Fitted, second: Fitted, texts: tuple[Sequence[str], Sequence[str]], budget: int) -> list[Fitted]:
    """Fit two lists into one budget: each has half of it, and what one does not need the other gets."""
    cap = fair_cap([first.characters, second.characters], budget)
    fitted = [fit(one.items, names, cap) for one, names in zip((first, second), texts, strict=True)]
    return [
        Fitted(now.items, before.omitted + now.omitted) for before, now in zip((first, second), fitted, strict=True)
    ]


def _shortened(item: Item, texts: Sequence[str], most: int) -> Item | None:
    """The item with at most so many characters; None when there is no room for its texts."""
    if size_of(item) <= most:
        return item
    marked = {**item, "truncated": True}
    lengths = {name: len(item[name]) for name in texts if item[name]}
    cap = fair_cap(list(lengths.values()), most - size_of(marked) + sum(lengths.values()))
    if cap < _LEAST_TEXT:
        return None
    return marked | {name: item[name][: cap - 1].rstrip() + _CUT for name, length in lengths.items() if length > cap}
