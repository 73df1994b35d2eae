"""How one value looks in a terminal."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from rich.text import Text

_COLOURS = {
    "active": "green", "done": "green", "ok": "green", "up": "green",
    "invited": "yellow", "suspended": "yellow", "refused": "yellow",
    "disabled": "red", "deleted": "red", "failed": "red", "down": "red",
}  # fmt: skip
# What is shown once is worth a colour of its own.
SECRETS = frozenset({"secret", "invitation", "token"})
# Terminals obey the first; what somebody else typed must not. The others turn the words around them, so that what is
# approved would read otherwise than it is: they are shown by their numbers.
_CONTROLS: dict[int, str] = dict.fromkeys((*range(32), *range(127, 160)), "") | {
    code: f"<U+{code:04X}>" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
}


def cell(value: Any) -> Text:
    """A value on one line."""
    if value is None:
        return Text("")
    if isinstance(value, bool):
        return Text("yes" if value else "no", style="green" if value else "red")
    if isinstance(value, list):
        items = cast("list[object]", value)
        if all(isinstance(item, str) for item in items):
            return Text(plain(" ".join(map(str, items))))
    if isinstance(value, dict | list):
        return Text(plain(json.dumps(value, ensure_ascii=False)))
    return Text(plain(str(value)), style=_COLOURS.get(str(value), ""))


def entry(name: str, value: Any) -> Text:
    """A value beside its name, where there is room for all of it."""
    last = name.rpartition(".")[2]
    if isinstance(value, str) and (last == "at" or last.endswith("_at")):
        return Text(moment(value, "%Y-%m-%d %H:%M:%S UTC"))
    text = cell(value)
    if last in SECRETS:
        text.stylize("bold yellow")
    return text


def moment(value: str, shape: str) -> str:
    """A time in UTC, as short as asked for."""
    try:
        return datetime.fromisoformat(value).astimezone(UTC).strftime(shape)
    except ValueError:
        return plain(value)


def for_whom(thing: Mapping[str, Any], field: str = "on_behalf_of") -> str | None:
    """The name of an actor, or of whom they act for; one that nobody has checked is marked as a claim."""
    name = thing.get(field)
    if not name:
        return None
    return f"{name} (a claim: nobody has checked it)" if name in thing.get("claims", ()) else str(name)


def plain(text: str) -> str:
    """Return it without what a terminal would obey."""
    return text.translate(_CONTROLS)
