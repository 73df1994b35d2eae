import ast
from pathlib import PurePosixPath

from tests.rules.tree import ours, parsed

MECHANISMS = {"utils", "util", "helpers", "helper", "common", "misc", "base", "manager", "managers", "v2"}


def test_a_module_is_named_after_the_domain_never_the_mechanism() -> None:
    found = {
        name: words
        for name in ours("src/", ".py")
        if (words := MECHANISMS.intersection(PurePosixPath(name).with_suffix("").parts))
    }

    assert found == {}


def test_nothing_has_an_async_twin() -> None:
    twins = [
        f"{name}:{node.lineno} {node.name}"
        for name in ours("src/", ".py")
        for node in ast.walk(parsed(name))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.endswith("_async")
    ]

    assert twins == []
