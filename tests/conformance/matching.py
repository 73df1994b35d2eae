"""Whether a value is as a vector expects it. Vectors of ours and the official ones say it in the same words."""

import re
from collections.abc import Callable, Iterator
from typing import Any

ABSENT = object()
_TYPES: dict[str, Any] = {
    "string": str,
    "array": list,
    "object": dict,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def match(expected: Any, value: Any, where: str) -> list[str]:
    """What is wrong. A plain value must be equal; an object may hold rules, or the fields to look into."""
    if not isinstance(expected, dict):
        return [] if expected == value else [f"{where} is {str(value)[:200]}, not {expected}"]
    wrong: list[str] = []
    for name, wanted in expected.items():
        if name in _RULES:
            if not _RULES[name](wanted, value, where):
                wrong.append(f"{where} is {'absent' if value is ABSENT else str(value)[:200]}, not {name} {wanted}")
        else:
            wrong += match(wanted, _inside(value, name), f"{where}.{name}")
    return wrong


def at(value: Any, path: str) -> Iterator[Any]:
    """Everything at a path such as `task.artifacts[*].parts[0]`."""
    head, _, rest = path.partition(".")
    name, _, which = head.rstrip("]").partition("[")
    found = value.get(name) if isinstance(value, dict) else None
    if which and which != "*":
        found = found[int(which)] if isinstance(found, list) and int(which) < len(found) else None
    for one in (found or []) if which == "*" else ([] if found is None else [found]):
        if rest:
            yield from at(one, rest)
        else:
            yield one


def filled(value: Any, captured: dict[str, Any]) -> Any:
    """The same with every `{{name}}` replaced by what was captured under that name."""
    if isinstance(value, dict):
        return {name: filled(one, captured) for name, one in value.items()}
    if isinstance(value, list):
        return [filled(one, captured) for one in value]
    if isinstance(value, str) and (whole := re.fullmatch(r"\{\{([^{}]+)\}\}", value)):
        return captured.get(whole[1])
    if isinstance(value, str):
        return re.sub(r"\{\{([^{}]+)\}\}", lambda name: str(captured[name[1]]), value)
    return value


def _inside(value: Any, name: str) -> Any:
    if isinstance(value, list) and name.lstrip("-").isdigit():
        place = int(name)
        return value[place] if -len(value) <= place < len(value) else ABSENT
    return value.get(name, ABSENT) if isinstance(value, dict) else ABSENT


def _items(wanted: Any, value: Any, where: str) -> bool:
    if not isinstance(value, list):
        return False
    if isinstance(wanted, dict):
        return all(not match(wanted, one, where) for one in value)
    return all(any(not match(one, found, where) for found in value) for one in wanted)


_RULES: dict[str, Callable[[Any, Any, str], bool]] = {
    "type": lambda wanted, value, _: isinstance(value, _TYPES[wanted]),
    "exists": lambda wanted, value, _: (value is not ABSENT) is wanted,
    "absent": lambda wanted, value, _: (value is ABSENT) is wanted,
    "one_of": lambda wanted, value, _: value in wanted,
    "none_of": lambda wanted, value, _: value not in wanted,
    "any_of": lambda wanted, value, where: any(not match(one, value, where) for one in wanted),
    "all_of": lambda wanted, value, where: all(not match(one, value, where) for one in wanted),
    "count": lambda wanted, value, _: isinstance(value, list) and len(value) == wanted,
    "count_gte": lambda wanted, value, _: isinstance(value, list) and len(value) >= wanted,
    "count_lte": lambda wanted, value, _: not isinstance(value, list) or len(value) <= wanted,
    "contains": lambda wanted, value, _: value is not ABSENT and wanted in value,
    "starts_with": lambda wanted, value, _: str(value).startswith(wanted),
    "matches": lambda wanted, value, _: isinstance(value, str) and re.search(wanted, value) is not None,
    "descends": lambda wanted, value, _: (
        (moments := list(at({"all": value}, f"all[*].{wanted}"))) == sorted(moments, reverse=True)
    ),
    "items": _items,
}
