import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doors.mcp.calling import Mcp
from tests.doors.rest.calling import new_tenant
from tests.harness import InProcess, Server
from tests.tenants import beside

# A server finds the agents of its tests as they find ours.
TREE = os.pathsep.join(filter(None, [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH")]))
EXAMPLE = str(Path(__file__).parents[3] / "examples" / "conformance")


@pytest.fixture(scope="session")
def spoken() -> Iterator[Server]:
    """A server with the conformance agent."""
    path = os.pathsep.join(filter(None, [EXAMPLE, os.environ.get("PYTHONPATH")]))
    with InProcess({"DRAGOMAN_AGENT": "agent:agent", "PYTHONPATH": path}) as running:
        yield running


@pytest.fixture(scope="session")
def everything(spoken: Server) -> Iterator[Server]:
    """A server beside it, with an agent that has one of everything."""
    agent = {"DRAGOMAN_AGENT": "examples.everything.agent:agent", "PYTHONPATH": TREE}
    with InProcess(beside(spoken) | agent) as running:
        yield running


@pytest.fixture(scope="session")
def several(spoken: Server) -> Iterator[Server]:
    """The same agent once more, in two processes on one socket."""
    agent = {"DRAGOMAN_AGENT": "examples.everything.agent:agent", "PYTHONPATH": TREE}
    with Server(beside(spoken) | agent, "--workers", "2") as running:
        yield running


@pytest.fixture(autouse=True)
def _close_clients() -> Iterator[None]:
    yield
    while Mcp.opened:
        Mcp.opened.pop().close()


@pytest.fixture
def mcp(spoken: Server) -> Mcp:
    """One who may do everything."""
    return Mcp(spoken, role="super_admin")


@pytest.fixture
def rival(spoken: Server) -> Mcp:
    """An administrator of another tenant."""
    return Mcp(spoken, tenant=new_tenant(spoken)["slug"])


@pytest.fixture
def tenant(spoken: Server) -> str:
    """A tenant of the test's own."""
    return new_tenant(spoken)["slug"]


@pytest.fixture
def here(spoken: Server, tenant: str) -> Mcp:
    """Its administrator."""
    return Mcp(spoken, tenant=tenant)


@pytest.fixture
def there(spoken: Server, everything: Server, tenant: str) -> Mcp:
    """The same one at another process."""
    return Mcp(everything, keys_of=spoken, tenant=tenant)
