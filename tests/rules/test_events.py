"""Only the module of events knows what an event looks like as JSON; that readers use types is what pyright checks."""

import ast
from typing import get_args

from dragoman.services.tasks.events import Kind
from tests.rules.tree import ours, parsed

HOME = "src/dragoman/services/tasks/events.py"
# Parts of messages have kinds, too; none of these is one.
KINDS = set(get_args(Kind))


def names_an_event(node: ast.Dict) -> bool:
    """Whether a literal says that it is of one of these kinds."""
    constants = [
        (key.value, value.value)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
    ]
    return any(key == "kind" and value in KINDS for key, value in constants)


def test_events_of_tasks_are_made_by_their_constructors_alone() -> None:
    made_elsewhere = [
        f"{name}:{node.lineno}"
        for name in ours("src/dragoman/services/", ".py")
        if name != HOME
        for node in ast.walk(parsed(name))
        if isinstance(node, ast.Dict) and names_an_event(node)
    ]

    assert made_elsewhere == []


def test_rows_of_the_log_are_read_by_the_module_of_events_alone() -> None:
    """A service that subscripts `body` has a row in its hands; what clients do with the answers of REST is theirs."""
    poked = [
        f"{name}:{node.lineno}"
        for name in ours("src/dragoman/services/tasks/", ".py")
        if name != HOME
        for node in ast.walk(parsed(name))
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name | ast.Attribute)
        and (node.value.id if isinstance(node.value, ast.Name) else node.value.attr) in ("body", "event")
    ]

    assert poked == []
