from typing import Any

import pytest

pytest_plugins = ["pytester", "tests.requirements"]


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The loop that the server runs on."""
    return "asyncio", {"use_uvloop": True}
