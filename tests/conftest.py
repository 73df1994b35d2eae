import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness import Server

pytest_plugins = ["pytester", "tests.requirements"]
_MADE_UP = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def pytest_make_parametrize_id(val: object) -> str | None:
    """Processes that run parts of the suite must agree on the names of tests: an id made at random is named as one."""
    return _MADE_UP.sub("<id>", val) if isinstance(val, str) and _MADE_UP.search(val) else None


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The loop that the server runs on."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for all tests that need nothing special of it; its limits are out of the way."""
    with Server() as running:
        yield running
