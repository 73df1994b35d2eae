from uuid import uuid4

import pytest

from tests.doors.cli.terminal import Terminal
from tests.harness import Server


@pytest.fixture
def terminal(server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """At the machine of the tests' server."""
    return Terminal(monkeypatch, capsys, {"data_dir": str(server.data_dir)})


@pytest.fixture
def elsewhere(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Terminal:
    """At a machine without a server."""
    return Terminal(monkeypatch, capsys, {"data_dir": str(tmp_path_factory.mktemp("none")), "port": "1"})


@pytest.fixture
def tenant(terminal: Terminal) -> str:
    """A tenant of one's own."""
    slug = f"cli-{uuid4().hex[:8]}"
    assert terminal.type("tenant", "create", "--name", "Ours", "--slug", slug).status == 0
    return slug
