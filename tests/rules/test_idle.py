"""A server that nobody asks anything holds in memory what it needs to listen, and no more."""

import subprocess
import sys
from pathlib import Path

from tests.harness import Process

# Each takes megabytes, and is needed by the first request that is about it.
LATER = ("cedarpy", "a2a", "google.protobuf", "mcp", "mcp_types", "grpc", "sqlite3")


def test_the_server_imports_what_only_some_requests_need_with_the_first_of_them() -> None:
    look = f"import sys, dragoman.app.serving; print([name for name in {LATER} if name in sys.modules])"

    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"


def test_a_server_that_listens_for_grpc_has_not_loaded_it() -> None:
    with Process() as server:
        mapped = Path(f"/proc/{server.pid}/maps").read_text()

    assert "cygrpc" not in mapped
    assert "cedarpy" not in mapped
    assert "greenlet" not in mapped


def test_the_models_of_operations_are_built_when_they_are_used() -> None:
    look = (
        "import dragoman.app.serving; from dragoman.operations import Input; "
        "print([model.__name__ for model in Input.__subclasses__() if model.__pydantic_complete__])"
    )

    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)

    # One is the default of a field, and so made with the class that has it.
    assert found.stdout.strip() == "['LayerIds']"
