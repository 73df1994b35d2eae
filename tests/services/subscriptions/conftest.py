from collections.abc import Iterator

import pytest

from tests.harness import InProcess, Server
from tests.receiver import Receiver
from tests.services.subscriptions.subscribing import SOON, Tenant
from tests.services.tasks.conftest import with_workers


@pytest.fixture(scope="package")
def telling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with workers that may reach receivers on this machine, and tries thrice."""
    with InProcess(
        with_workers(tmp_path_factory.mktemp("outside")) | SOON | {"DRAGOMAN_SUBSCRIPTIONS__MAX_ATTEMPTS": "3"}
    ) as running:
        yield running


@pytest.fixture
def tenant(telling: Server) -> Iterator[Tenant]:
    """A tenant of the test's own."""
    opened = Tenant(telling)
    yield opened
    opened.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver that takes everything."""
    with Receiver() as listening:
        yield listening
