import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.infra.db import migrate
from tests.backstage import database_url
from tests.harness import InProcess, Server
from tests.infra.databases import new_database
from tests.services.tasks.counting import OUTSIDE

# A server finds the workers of these tests as they find ours.
TREE = os.pathsep.join(filter(None, [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH")]))


def with_workers(outside: Path) -> dict[str, str]:
    """The environment of a server whose workers count in this directory."""
    return {
        "PYTHONPATH": TREE,
        "DRAGOMAN_TASKS__WORKERS": "tests.services.tasks.counting:workers",
        "DRAGOMAN_TASKS__RETRY_BASE_S": "0.05",
        "DRAGOMAN_LIMITS__A2A_TENANT_PER_MIN": "1000000",
        OUTSIDE: str(outside),
    }


@pytest.fixture(scope="session")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the workers leave their traces."""
    return tmp_path_factory.mktemp("outside")


@pytest.fixture(scope="session")
def counting(outside: Path) -> Iterator[Server]:
    """A server with the workers of these tests."""
    with InProcess(with_workers(outside)) as running:
        yield running


@pytest.fixture(scope="module")
def url(server: Server) -> Iterator[str]:
    """The address of a database of its own, with our schema."""
    with new_database(database_url(server)) as made:
        asyncio.run(migrate(made))
        yield made
