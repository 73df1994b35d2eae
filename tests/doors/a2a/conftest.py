import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doors.a2a.calling import A2A, CONFORMANCE
from tests.doors.rest.calling import new_tenant
from tests.harness import InProcess, Process, Server

# A server finds the agents of its tests as they find ours.
TREE = os.pathsep.join(filter(None, [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH")]))


@pytest.fixture(autouse=True)
def _close_clients() -> Iterator[None]:
    yield
    while A2A.opened:
        A2A.opened.pop().close()


@pytest.fixture(scope="session")
def served() -> Iterator[Server]:
    """A server with the conformance agent."""
    with InProcess(CONFORMANCE) as running:
        yield running


@pytest.fixture(scope="session")
def heavy() -> Iterator[Server]:
    """A server with an agent that makes as much as it is asked for."""
    agent = {"DRAGOMAN_AGENT": "tests.doors.a2a.heavy_agent:agent", "DRAGOMAN_LIMITS__A2A_TENANT_PER_MIN": "1000000"}
    with Process(agent | {"PYTHONPATH": TREE}) as running:
        yield running


@pytest.fixture
def a2a(served: Server) -> A2A:
    """One who may send messages."""
    return A2A(served)


@pytest.fixture
def rival(served: Server) -> A2A:
    """The same, in another tenant."""
    return A2A(served, tenant=new_tenant(served)["slug"])


@pytest.fixture(scope="session")
def served_plain() -> Iterator[Server]:
    """A server with nothing but what comes with it."""
    with InProcess({"DRAGOMAN_LIMITS__A2A_TENANT_PER_MIN": "1000000"}) as running:
        yield running
