"""The official kits from npm, where there is Node: the conformance suite, and the inspector as a client.

They are installed once into a cache outside the tree. Only exit codes count: a dead server, too, passes some checks.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.doors.mcp.bearer import Bearer
from tests.harness import Server

PACKAGES = ("@modelcontextprotocol/conformance@0.2.0-alpha.12", "@modelcontextprotocol/inspector@2.12.0", "node@22")
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dragoman" / "mcp-kits-1"
# All that ask for no tools, resources or prompts of the kit's own.
SCENARIOS = {
    "2025-11-25": (
        "server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "completion-complete",
        "dns-rebinding-protection", "server-sse-multiple-streams", "server-session-lifecycle",
    ),
    "2026-07-28": (
        "server-stateless", "tools-list", "resources-list", "prompts-list", "completion-complete", "caching",
        "sep-2164-resource-not-found", "dns-rebinding-protection", "http-header-validation",
        "input-required-result-unsupported-methods",
    ),
}  # fmt: skip
# Checks that can only be passed with tools of the kit's own.
BASELINE = """
server:
  - server-stateless:sep-2575-server-rejects-undeclared-capability
  - server-stateless:sep-2575-missing-capability-http-400
  - server-stateless:sep-2575-http-server-no-independent-requests-on-stream
  - server-stateless:sep-2575-server-no-log-without-loglevel
"""


@pytest.fixture(scope="module")
def kits() -> Path:
    """The folder with the kits in it."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed; the official kits need it")
    if not (CACHE / "ready").exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        (CACHE / "package.json").write_text("{}")
        made = subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", *PACKAGES],
            cwd=CACHE, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        if made.returncode != 0:
            pytest.skip(f"the official kits cannot be installed: {made.stderr[-300:]}")
        (CACHE / "ready").touch()
    if not (CACHE / "node_modules" / "node" / "bin" / "node").exists():
        pytest.skip("the official kits need Node 22, and npm did not install it")
    return CACHE / "node_modules"


@pytest.fixture(scope="module")
def open_door(spoken: Server) -> Iterator[str]:
    """The address of the server for who has no token."""
    with Bearer(spoken, spoken.token(role="super_admin")) as bearer:
        yield f"{bearer.url}/mcp"


def run(kits: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    node = kits / "node" / "bin" / "node"
    return subprocess.run(
        [node, kits / script, *arguments], cwd=kits.parent, capture_output=True, text=True, timeout=110, check=False
    )


@pytest.mark.parametrize("version", SCENARIOS)
def test_the_conformance_suite_finds_nothing(kits: Path, open_door: str, version: str, tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.yml"
    baseline.write_text(BASELINE)

    def judge(scenario: str) -> str:
        said = run(
            kits, "@modelcontextprotocol/conformance/dist/index.js", "server", "--url", open_door,
            "--spec-version", version, "--scenario", scenario,
            *(("--expected-failures", str(baseline)) if scenario in BASELINE else ()),
        )  # fmt: skip
        return "" if said.returncode == 0 else f"{scenario}: {said.stdout[-1500:]}{said.stderr[-500:]}"

    with ThreadPoolExecutor(4) as pool:
        found = [complaint for complaint in pool.map(judge, SCENARIOS[version]) if complaint]

    assert found == []


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_calls_a_tool(kits: Path, open_door: str, era: str) -> None:
    def inspect(*arguments: str) -> dict[str, Any]:
        said = run(
            kits, "@modelcontextprotocol/inspector/clients/launcher/build/index.js", "--cli", open_door,
            "--transport", "http", "--protocol-era", era, *arguments,
        )  # fmt: skip
        assert said.returncode == 0, said.stdout[-2000:] + said.stderr[-2000:]
        return json.loads(said.stdout)

    who = inspect("--method", "tools/call", "--tool-name", "identity_show")

    assert who["structuredContent"]["subject"] == "admin"
