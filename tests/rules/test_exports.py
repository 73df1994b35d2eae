import ast
import importlib
import tomllib

import dragoman
from tests.rules.tree import ours, parsed, text


def declares_all(name: str) -> bool:
    assigned = (node for node in parsed(name).body if isinstance(node, ast.Assign))
    return any(isinstance(target, ast.Name) and target.id == "__all__" for node in assigned for target in node.targets)


def test_every_exported_name_exists_and_is_exported_once() -> None:
    wrong: dict[str, list[str]] = {}
    for name in ours("src/", ".py"):
        if declares_all(name):
            dotted = name.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            module = importlib.import_module(dotted)
            exported: list[str] = module.__all__
            missing = [export for export in exported if not hasattr(module, export)]
            if missing or len(set(exported)) != len(exported):
                wrong[dotted] = missing

    assert wrong == {}


def test_no_star_is_imported() -> None:
    stars = [
        f"{name}:{node.lineno}"
        for name in ours("src/", ".py")
        for node in ast.walk(parsed(name))
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
    ]

    assert stars == []


def test_the_package_and_the_project_name_one_version() -> None:
    assert dragoman.__version__ == tomllib.loads(text("pyproject.toml"))["project"]["version"]
