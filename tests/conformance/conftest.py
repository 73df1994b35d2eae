from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from tests.doors.a2a.conftest import _close_clients, served
from tests.doors.rest.calling import new_tenant
from tests.harness import Server

__all__ = ["_close_clients", "served"]


@pytest.fixture(scope="session")
def callers(served: Server) -> Iterator[dict[str, httpx.Client]]:
    """By the names that vectors call them: who owns the tasks, and those who may do more or less."""
    tokens = {
        "owner": served.token(),
        "admin": served.token(role="super_admin"),
        "viewer": served.token(role="viewer"),
        "rival": served.token(tenant=new_tenant(served)["slug"]),
        "forged": served.token()[:-8] + "forgedxx",
        "nobody": None,
    }
    with ExitStack() as stack:
        yield {name: stack.enter_context(served.client(token)) for name, token in tokens.items()}
