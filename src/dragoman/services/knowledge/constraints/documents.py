"""Settings in JSON, YAML and TOML: a value by its path, and the line where it stands."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# YAML and re2 have no types.

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, cast

import re2
import yaml

from dragoman.services.knowledge.constraints.models import SourceFile

SUFFIXES = frozenset({".json", ".yaml", ".yml", ".toml"})
_MOST_PARSED = 2 << 20
_MOST_FOUND = 1_000
_STEP = re.compile(r"\[(\d{1,9}|\*)\]|\[\"([^\"\]]+)\"\]|\.?([^.\[\]]+)")
# By the linear engine: an unclosed comment after another would cost the square of their number.
_COMMENTS = re2.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*(?:[^*]|\*+[^*/])*\*+/')


class PathRefused(Exception):
    """The path cannot be read; the message says how one looks."""


class Unreadable(Exception):
    """The document is none of its kind."""


Step = str | int
Steps = tuple[Step, ...]
ANY = "*"


@dataclass(frozen=True, slots=True)
class Found:
    """A value, and the steps that lead to it."""

    steps: Steps
    value: Any

    @property
    def text(self) -> str:
        """The value as a pattern sees it."""
        return self.value if isinstance(self.value, str) else json.dumps(self.value, sort_keys=True, default=str)


@lru_cache(maxsize=1024)
def read_path(path: str) -> Steps:
    """`a.b[0].c`, `a["x.y"]`, and * for every key or element.

    Raises:
        PathRefused: it is no path.
    """
    steps: list[Step] = []
    place = 0
    while place < len(path):
        matched = _STEP.match(path, place)
        if matched is None or matched.end() == place:
            raise PathRefused("is not a path such as server.tls[0].cert")
        index, quoted, plain = matched.groups()
        steps.append(int(index) if index and index != ANY else index or quoted or plain)
        place = matched.end()
    return tuple(steps)


def is_document(path: str) -> bool:
    """Whether such a file holds settings that are understood."""
    return PurePosixPath(path).suffix in SUFFIXES


def documents_of(file: SourceFile) -> list[Any]:
    """The documents of a file: one, or as many as YAML has.

    Raises:
        Unreadable: it cannot be parsed, or is too large to be settings.
    """
    suffix = PurePosixPath(file.path).suffix
    if len(file.content) > _MOST_PARSED:
        raise Unreadable("it is too large")
    try:
        if suffix == ".toml":
            return [tomllib.loads(file.content)]
        if suffix == ".json":
            return [_json(file.content)]
        return list(yaml.load_all(file.content, Loader=yaml.CSafeLoader))
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise Unreadable(str(error).splitlines()[0]) from None


def find_values(document: Any, steps: Steps) -> list[Found]:
    """Every value that the steps lead to; shared nodes are walked as often as they stand there, up to a limit."""
    found: list[Found] = []
    for value in _walk(document, steps, ()):
        found.append(value)
        if len(found) >= _MOST_FOUND:
            break
    return found


def line_of(file: SourceFile, steps: Steps) -> int:
    """Where the value stands, or as far as the document goes along the steps."""
    if PurePosixPath(file.path).suffix == ".toml":
        return _scanned_line(file.content, steps)
    try:
        nodes = list(yaml.compose_all(file.content, Loader=yaml.CSafeLoader))
    except yaml.YAMLError:
        return _scanned_line(file.content, steps)
    return max((_node_line(node, steps) for node in nodes if node is not None), default=1)


def _json(content: str) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        # As tsconfig.json and its like are written.
        bare = _COMMENTS.sub(lambda found: found[0] if found[0].startswith('"') else "", content)
        return json.loads(re.sub(r",(\s*[}\]])", r"\1", bare))


def _walk(node: Any, steps: Steps, gone: Steps) -> Iterator[Found]:
    if not steps:
        yield Found(gone, node)
        return
    step, rest = steps[0], steps[1:]
    if isinstance(node, dict):
        branch = cast("dict[Any, Any]", node)
        keys = list(branch) if step == ANY else [key for key in (step, str(step)) if key in branch][:1]
        for key in keys:
            yield from _walk(branch[key], rest, (*gone, str(key)))
    elif isinstance(node, list):
        items = cast("list[Any]", node)
        places = range(len(items)) if step == ANY else [step] if isinstance(step, int) and step < len(items) else []
        for place in places:
            yield from _walk(items[place], rest, (*gone, place))


def _node_line(node: Any, steps: Steps) -> int:
    line = node.start_mark.line + 1
    for step in steps:
        if isinstance(node, yaml.MappingNode):
            pairs = cast("list[tuple[Any, Any]]", node.value)
            pair = next((pair for pair in pairs if pair[0].value == str(step)), None)
            if pair is None:
                return line
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line + 1
        else:
            return line
    return line


def _scanned_line(content: str, steps: Steps) -> int:
    """For a grammar whose parser keeps no lines: the header of a table or the key, each below the one before."""
    lines = content.splitlines()
    at = 0
    for name in (re.escape(step) for step in steps if isinstance(step, str)):
        key = re.compile(rf"\[[^\]]*\b{name}\b[^\]]*\]|(?:^|[\s{{,.])[\"']?{name}[\"']?\s*[=:.]")
        at = next((number for number in range(at, len(lines)) if key.search(lines[number][:500])), at)
    return at + 1
