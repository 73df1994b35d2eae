import os
import re
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest

from dragoman.testing import own_database
from tests.harness import InProcess, Server

pytest_plugins = ["pytester", "tests.requirements"]
# As in a server, and before anybody imports gRPC: what it does between fork and exec spoils the programs we start.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"
# No example has a deadline: how long one takes is up to what else the machine does.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")
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
    with InProcess() as running:
        yield running


@pytest.fixture(scope="session")
def schema_url() -> Iterator[str]:
    """The address of a migrated database that no server uses, for tests of stores; each makes tenants of its own."""
    with own_database() as made:
        yield made["DRAGOMAN_DATABASE_URL"]
