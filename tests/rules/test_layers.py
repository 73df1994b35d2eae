"""What import-linter cannot see: things that are not imports and still belong in one place."""

import ast
import re
from collections.abc import Iterator

from tests.rules.tree import ours, parsed

STATEMENT = re.compile(
    r"\s*(--[^\n]*\n\s*)*(SELECT\s|INSERT\s+INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s|WITH\s+\w+\s+AS\s)"
)
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb"}
TOUCHES_ENVIRONMENT = (
    "src/dragoman/app/serving.py",
    "src/dragoman/__main__.py",  # what child processes inherit
    "src/dragoman/doors/cli/",
    "src/dragoman/infra/config",
    "src/dragoman/infra/edge/grpc.py",  # gRPC is told nowhere else what to do at a fork
    "src/dragoman/infra/embedded",
    "src/dragoman/infra/telemetry/",  # prometheus-client takes its directory from nowhere else
)


def literals(name: str) -> Iterator[tuple[int, str]]:
    """Every string in a file with its line; of an f-string, its constant pieces."""
    for node in ast.walk(parsed(name)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_sql_lives_in_stores_and_infra_alone() -> None:
    def allowed(name: str) -> bool:
        return name.startswith("src/dragoman/infra/") or name.rpartition("/")[2].startswith("store")

    found = [
        f"{name}:{line}"
        for name in ours("src/", ".py")
        if not allowed(name)
        for line, value in literals(name)
        if STATEMENT.match(value)
    ]

    assert found == []


def test_the_environment_is_touched_in_few_places() -> None:
    found = [
        f"{name}:{node.lineno} os.{node.attr}"
        for name in ours("src/", ".py")
        if not name.startswith(TOUCHES_ENVIRONMENT)
        for node in ast.walk(parsed(name))
        if isinstance(node, ast.Attribute)
        and node.attr in ENVIRONMENT
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
    ]

    assert found == []
