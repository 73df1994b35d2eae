from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness import Server

pytest_plugins = ["pytester", "tests.requirements"]


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The loop that the server runs on."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for all tests that need nothing special of it; its limits are out of the way."""
    with Server() as running:
        yield running
