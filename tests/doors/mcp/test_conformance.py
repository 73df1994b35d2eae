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
# All that ask for no tools, resources or prompts of the kit's own, and for no session.
SCENARIOS = {
    "2025-11-25": (
        "server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "completion-complete",
        "dns-rebinding-protection",
    ),
    "2026-07-28": (
        "server-stateless", "tools-list", "resources-list", "prompts-list", "completion-complete", "caching",
        "sep-2164-resource-not-found", "dns-rebinding-protection", "http-header-validation",
        "input-required-result-unsupported-methods",
    ),
}  # fmt: skip
# Of the extension: all that ask for no more than tools that run, fail and crash.
TASK_SCENARIOS = (
    "tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-headers",
    "tasks-request-state-removal",
)  # fmt: skip
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

    options = {"server-stateless": ("--expected-failures", str(baseline))}
    found = judge(kits, open_door, SCENARIOS[version], "--spec-version", version, options=options)

    assert found == []


def test_the_conformance_suite_finds_nothing_in_the_tasks_extension(kits: Path, spoken: Server, jobs: Server) -> None:
    with Bearer(jobs, spoken.token(role="super_admin")) as bearer:
        found = judge(kits, f"{bearer.url}/mcp", TASK_SCENARIOS)

    assert found == []


def judge(
    kits: Path, url: str, scenarios: tuple[str, ...], *more: str, options: dict[str, tuple[str, ...]] | None = None
) -> list[str]:
    """What the suite says of the scenarios that did not pass; one that it leaves out did not."""

    def one(scenario: str) -> str:
        said = run(
            kits, "@modelcontextprotocol/conformance/dist/index.js", "server", "--url", url, "--scenario", scenario,
            *more, *(options or {}).get(scenario, ()),
        )  # fmt: skip
        passed = said.returncode == 0 and "SUCCESS" in said.stdout
        return "" if passed else f"{scenario}: {said.stdout[-1500:]}{said.stderr[-500:]}"

    with ThreadPoolExecutor(4) as pool:
        return [complaint for complaint in pool.map(one, scenarios) if complaint]


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
