from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backstage import add_tenant
from tests.harness import InProcess, Server
from tests.services.approvals.asking import Office
from tests.services.knowledge.remotes import Remote
from tests.services.tasks.conftest import with_workers


@pytest.fixture(scope="session")
def governed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the workers of tests, which may read repositories of this machine."""
    allowed = {"DRAGOMAN_KNOWLEDGE__ALLOW_FILE_REMOTES": "true"}
    with InProcess(with_workers(tmp_path_factory.mktemp("outside")) | allowed) as running:
        yield running


@pytest.fixture
def office(governed: Server) -> Iterator[Office]:
    """A tenant of the test's own."""
    opened = Office(governed, add_tenant(governed))
    yield opened
    opened.close()


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    """A repository that the tenant syncs from."""
    return Remote(tmp_path / "remote")
