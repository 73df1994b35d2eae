"""Golden traces: what is asked in which order, and what must come of it on every door.

A trace is a JSON file: `name`, `steps` and `task`. A step calls a tool with arguments, may keep something of the answer
under a name, and says what the answer must hold. `task` says what the task of the trace must have become. `${actor}`,
`${key}` and what was kept stand for their values; `"*"` in an expectation is anything at all.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, cast

Json = dict[str, Any]
_PLACE: Final = re.compile(r"\$\{([a-z_]+)\}")
ANYTHING: Final = "*"


class TraceError(Exception):
    """A file is no trace."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call, what to keep of its answer, and what the answer must hold."""

    call: str
    arguments: Json
    expect: Json = field(default_factory=dict[str, Any])
    keep: Mapping[str, str] = field(default_factory=dict[str, str])
    until: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """What is asked, and what must come of it. A `shared` trace uses one key on all doors: they meet in one task."""

    name: str
    steps: tuple[Step, ...]
    task: Json = field(default_factory=dict[str, Any])
    shared: bool = False


def read_traces(place: Path | None = None) -> list[Trace]:
    """Those of a file or of a directory; those that come with this program when none is named.

    Raises:
        TraceError: one of them is none.
    """
    if place is None:
        shipped = files("dragoman.parity") / "traces"
        texts = {one.name: one.read_text("utf-8") for one in shipped.iterdir() if one.name.endswith(".json")}
    else:
        paths = sorted(place.glob("*.json")) if place.is_dir() else [place]
        texts = {str(path): path.read_text("utf-8") for path in paths}
    if not texts:
        raise TraceError(f"there is no trace in {place}")
    return [_read(name, text) for name, text in sorted(texts.items())]


def fill(value: Any, values: Mapping[str, str]) -> Any:
    """The value with everything that stands for something else replaced.

    Raises:
        TraceError: nothing of that name was kept.
    """
    if isinstance(value, str):

        def found(place: re.Match[str]) -> str:
            if place.group(1) not in values:
                raise TraceError(f"nothing is known as {place.group(0)}")
            return values[place.group(1)]

        return _PLACE.sub(found, value)
    if isinstance(value, dict):
        return {name: fill(inner, values) for name, inner in cast("Json", value).items()}
    if isinstance(value, list):
        return [fill(inner, values) for inner in cast("list[Any]", value)]
    return value


def differences(expected: object, found: object, place: str = "") -> list[str]:
    """Where what was found does not hold what was expected; more fields than expected are no difference."""
    if expected == ANYTHING:
        return [] if found is not None else [f"{place or 'answer'}: nothing, where something was expected"]
    if isinstance(expected, dict) and isinstance(found, dict):
        inner = cast("Json", found)
        return [
            line
            for name, value in cast("Json", expected).items()
            for line in differences(value, inner.get(name), f"{place}.{name}" if place else name)
        ]
    if isinstance(expected, list) and isinstance(found, list):
        wanted, there = cast("list[Any]", expected), cast("list[Any]", found)
        if len(wanted) == len(there):
            pairs = zip(wanted, there, strict=True)
            return [line for at, (a, b) in enumerate(pairs) for line in differences(a, b, f"{place}[{at}]")]
    elif expected == found:
        return []
    seen, wanted_text = _shown(cast("Any", found)), _shown(cast("Any", expected))
    return [f"{place or 'answer'}: {seen} instead of {wanted_text}"]


def _read(name: str, text: str) -> Trace:
    try:
        given: Json = json.loads(text)
        return Trace(
            name=str(given["name"]),
            steps=tuple(_step(step) for step in cast("list[Json]", given["steps"])),
            task=given.get("task", {}),
            shared=bool(given.get("shared", False)),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TraceError(f"{name} is no trace: {error}") from None


def _step(given: Json) -> Step:
    return Step(
        call=str(given["call"]),
        arguments=given["arguments"],
        expect=given.get("expect", {}),
        keep=given.get("keep", {}),
        until=tuple(cast("list[str]", given.get("until", []))),
    )


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"
