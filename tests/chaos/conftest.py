from collections.abc import Iterator

import pytest

from tests.chaos.installation import Installation, two_servers


@pytest.fixture(scope="package")
def _two_servers() -> Iterator[Installation]:
    with two_servers() as running:
        yield running


@pytest.fixture
def site(_two_servers: Installation) -> Iterator[Installation]:
    """Two servers with the agent and the crew of these tests, whole before and after each test."""
    _two_servers.heal()
    yield _two_servers
    _two_servers.release_callers()
    _two_servers.heal()
