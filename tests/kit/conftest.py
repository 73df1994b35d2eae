from collections.abc import Iterator

import pytest

from tests.kit.web import Web


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as running:
        yield running
