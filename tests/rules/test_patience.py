"""Tests wait with one patience: no short time of their own, and no judgement on how long anything took."""

import ast
from collections.abc import Iterator
from typing import Final

import pytest

from tests.rules.tree import ours, parsed

_SHORTEST_S: Final = 30
# A wait with a number that is its first argument. A literal below a second is a pace, not a patience.
_WAITS: Final = {"wait", "join", "result", "communicate", "acquire"}
_LIMITS: Final = {"fail_after", "move_on_after", "timeout"}
_NAMED: Final = {"timeout", "within_s", "patience_s"}
_CLOCKS: Final = {"monotonic", "perf_counter"}
_TESTS: Final = [name for name in ours("tests/", ".py") if not name.startswith("tests/rules/")]


def seconds(node: ast.expr) -> float | None:
    """The number that stands there; None for a name, which says what it is for."""
    return float(node.value) if isinstance(node, ast.Constant) and isinstance(node.value, int | float) else None


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def is_mark(node: ast.Call) -> bool:
    return ast.unparse(node.func) == "pytest.mark.timeout"


def short_waits(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every call that gives up soon, by its line."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = called(node)
        given = [seconds(keyword.value) for keyword in node.keywords if keyword.arg in _NAMED]
        if node.args and name in _LIMITS | _WAITS:
            first = seconds(node.args[0])
            given.append(first if name in _LIMITS or (first or 0) >= 1 else None)
        if len(node.args) > 1 and ast.unparse(node.func) == "asyncio.wait_for":
            given.append(seconds(node.args[1]))
        least = 300 if is_mark(node) else _SHORTEST_S
        if any(number is not None and 0 < number < least for number in given):
            yield node.lineno, ast.unparse(node)[:80]


def test_nothing_is_given_up_before_a_busy_machine_could_do_it() -> None:
    """A time-out that is the subject of a test has a name."""
    found = [f"{name}:{line} {call}" for name in _TESTS for line, call in short_waits(parsed(name))]

    assert found == []


def test_no_test_looks_at_how_long_something_took() -> None:
    found = [
        f"{name}:{node.lineno}"
        for name in _TESTS
        if name.rpartition("/")[2].startswith("test_")
        for node in ast.walk(parsed(name))
        if isinstance(node, ast.Attribute) and node.attr in _CLOCKS and ast.unparse(node.value) == "time"
    ]

    assert found == []


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("anyio.fail_after(5)", True),
        ("fail_after(PATIENCE_S)", False),
        ("asyncio.timeout(0.1)", True),
        ("asyncio.wait_for(event.wait(), 3)", True),
        ("asyncio.wait_for(event.wait(), 0)", False),
        ("wait_for(done, 'the end', patience_s=10)", True),
        ("thread.join(10)", True),
        ("stopping.wait(0.5)", False),
        ("', '.join(words)", False),
        ("subprocess.run(command, timeout=20)", True),
        ("subprocess.run(command, timeout=120)", False),
        ("pytest.mark.timeout(120)", True),
        ("pytest.mark.timeout(900)", False),
    ],
)
def test_a_short_wait_is_known_when_it_is_seen(line: str, wrong: bool) -> None:
    assert bool(list(short_waits(ast.parse(line)))) is wrong
