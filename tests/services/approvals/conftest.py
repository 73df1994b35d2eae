from collections.abc import Iterator

import pytest

from tests.backstage import add_tenant
from tests.harness import Server
from tests.services.approvals.asking import Office


@pytest.fixture
def office(server: Server) -> Iterator[Office]:
    """A tenant of the test's own."""
    opened = Office(server, add_tenant(server))
    yield opened
    opened.close()
