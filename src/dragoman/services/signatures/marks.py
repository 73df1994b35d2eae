"""Where signatures leave their marks: in the lower margin of the last page, where a contract has nothing else."""

from typing import Any, Final

Box = tuple[int, int, int, int]
_COLUMNS, _ROWS, _WIDTH, _HEIGHT, _GAP, _LEFT, _BOTTOM = 4, 2, 124, 26, 8, 36, 8


def box(count: int) -> Box | None:
    """Return the place of the mark after so many others; None once the margin is full."""
    row, column = divmod(count, _COLUMNS)
    if row >= _ROWS:
        return None
    left, bottom = _LEFT + column * (_WIDTH + _GAP), _BOTTOM + row * (_HEIGHT + _GAP)
    return left, bottom, left + _WIDTH, bottom + _HEIGHT


def is_mark(rectangle: Any) -> bool:
    """Whether a rectangle of a PDF is one of these places, or has no area, as that of an invisible signature."""
    try:
        x1, y1, x2, y2 = (float(one) for one in rectangle)
    except (TypeError, ValueError):
        return False
    return x1 == x2 or y1 == y2 or (x1, y1, x2, y2) in _PLACES


_PLACES: Final = frozenset(place for place in map(box, range(_COLUMNS * _ROWS)) if place is not None)
