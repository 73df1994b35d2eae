"""Small charts of characters, and amounts as people read them."""

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any, Final

from rich.text import Text

from dragoman.doors.cli.cells import plain

_STEPS: Final = "▁▂▃▄▅▆▇█"
_PARTS: Final = " ▏▎▍▌▋▊▉█"
_CENT: Final = Decimal("0.01")


def amount(text: str | None) -> str:
    """Return an amount with two decimals, or with what it has where it is less than a cent."""
    if text is None:
        return ""
    value = Decimal(text)
    return f"{value.quantize(_CENT, ROUND_HALF_EVEN):,f}" if abs(value) >= _CENT or not value else f"{value:.2g}"


def percent(value: float | None) -> str:
    """Return a share."""
    return "" if value is None else f"{min(value, 9999):.0f} %"


def change(value: float | None) -> Text:
    """Return a change as an arrow: what costs more is red."""
    if value is None:
        return Text("new", style="dim")
    arrow, style = ("▲", "red") if value > 0 else ("▼", "green") if value < 0 else ("=", "dim")
    return Text(f"{arrow} {min(abs(value), 9999):.0f} %", style=style)


def bar(part: float, width: int, *, style: str = "cyan") -> Text:
    """Return a bar that fills a part of its width, by eighths of a character."""
    eighths = round(max(0.0, min(part, 1.0)) * width * 8)
    full, rest = divmod(eighths, 8)
    return Text((_PARTS[8] * full + (_PARTS[rest] if rest else "")).ljust(width), style=style)


def spark(values: Sequence[Decimal], width: int) -> str:
    """Return a line of small columns; where there are more values than characters, some share one."""
    if not values:
        return ""
    count = min(width, len(values))
    cells = [values[place * len(values) // count : (place + 1) * len(values) // count] for place in range(count)]
    means = [sum(cell, Decimal(0)) / len(cell) for cell in cells]
    most = max(*means, Decimal(0)) if len(means) > 1 else max(means[0], Decimal(0))
    if not most:
        return _STEPS[0] * count
    columns = [_STEPS[min(int(max(mean, Decimal(0)) / most * 8), 7)] for mean in means]
    each = max(1, width // count)
    return "".join(column * min(each, 3) for column in columns)


def cut(text: Any, width: int) -> str:
    """Return text of exactly this width."""
    words = plain(str(text))
    return words.ljust(width) if len(words) <= width else words[: width - 1] + "…"
