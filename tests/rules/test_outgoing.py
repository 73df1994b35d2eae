"""Every upstream has a breaker, because every client of the server is made in one place."""

import ast
from pathlib import Path

from tests.rules.tree import ROOT

SOURCE = ROOT / "src" / "dragoman"
MAKER = "infra/outbound/clients.py"
# These are no part of a server: kit is a library of its own, and the others are programs that speak to a server.
ELSEWHERE = ("kit/", "demo/", "doors/mcp/bridge.py", "parity/doors.py", "testing.py")
# What opens a connection by itself.
OPENERS = {
    "httpx": {"AsyncClient", "Client", "AsyncHTTPTransport", "HTTPTransport", "get", "post", "request", "stream"},
    "httpx2": {"AsyncClient", "Client", "AsyncHTTPTransport", "HTTPTransport"},
    "urllib.request": {"urlopen", "build_opener"},
}
# The guard's own transport is what the clients send through.
TRANSPORT = {"infra/outbound/guard.py": {"AsyncHTTPTransport"}}


def opened(path: Path) -> list[str]:
    """What a module uses that opens connections."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module in OPENERS:
            found += [f"{node.module}.{each.name}" for each in node.names if each.name in OPENERS[node.module]]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            module = ast.unparse(node.func.value)
            if node.func.attr in OPENERS.get(module, ()):
                found.append(f"{module}.{node.func.attr}")
    return found


def test_clients_are_made_in_one_place() -> None:
    found: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if place != MAKER and not place.startswith(ELSEWHERE):
            allowed = TRANSPORT.get(place, set())
            found += [f"{place}: {each}" for each in opened(path) if each.rpartition(".")[2] not in allowed]

    assert found == []


def test_the_rule_sees_a_client_that_is_made_elsewhere(tmp_path: Path) -> None:
    module = tmp_path / "line.py"
    module.write_text("import httpx\nfrom httpx import AsyncClient\nhttpx.AsyncClient()\n")

    assert opened(module) == ["httpx.AsyncClient", "httpx.AsyncClient"]
