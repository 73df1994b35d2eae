"""The official conformance suite, where there is Node: on a server as it is, and on an agent with one of everything.

Only exit codes count: a dead server, too, passes some checks.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.doors.mcp.bearer import Bearer
from tests.doors.mcp.kits import SUITE, Kits, installed
from tests.harness import Server

# All that ask for no tools, resources or prompts of the kit's own.
SCENARIOS = {
    "2025-11-25": (
        "server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "completion-complete",
        "dns-rebinding-protection", "logging-set-level", "server-sse-multiple-streams", "server-session-lifecycle",
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
  - server-stateless:sep-2575-server-sends-prompts-list-changed-on-subscription
  - server-stateless:sep-2575-server-sends-tools-list-changed-on-subscription
"""
# Those in which the suite finds nothing to look at: streams of calls that can be taken up again, which it would rather
# see but does not require, and notifications of tasks, which it reads from the wrong stream and therefore leaves out.
VACUOUS = {
    "2025-11-25": {"server-sse-polling"},
    "2026-07-28": {"tasks-status-notifications"},
}
pytestmark = pytest.mark.external
PASSED = {"2025-11-25": 32, "2026-07-28": 49}


@pytest.fixture(scope="module")
def kits() -> Kits:
    """The official kits."""
    return installed()


@pytest.fixture(scope="module")
def open_door(spoken: Server) -> Iterator[str]:
    """The address of the server for who has no token."""
    with Bearer(spoken, spoken.token(role="super_admin")) as bearer:
        yield f"{bearer.url}/mcp"


@pytest.mark.parametrize("version", SCENARIOS)
def test_the_suite_finds_nothing_on_a_server_as_it_is(kits: Kits, open_door: str, version: str, tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.yml"
    baseline.write_text(BASELINE)

    def complaint(scenario: str) -> str:
        known = ("--expected-failures", str(baseline)) if scenario == "server-stateless" else ()
        said = kits.run(SUITE, "server", "--url", open_door, "--scenario", scenario, "--spec-version", version, *known)
        passed = said.returncode == 0 and "SUCCESS" in said.stdout
        return "" if passed else f"{scenario}: {said.stdout[-1500:]}{said.stderr[-500:]}"

    with ThreadPoolExecutor(4) as pool:
        complaints = [said for said in pool.map(complaint, SCENARIOS[version]) if said]

    assert complaints == []


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_the_suite_finds_nothing_on_an_agent_with_one_of_everything(
    kits: Kits, spoken: Server, everything: Server, version: str
) -> None:
    """All that the version requires, the tasks extension, and what is pending; nothing is left out."""
    with Bearer(everything, spoken.token(role="super_admin")) as bearer:
        said = kits.run(SUITE, "server", "--url", f"{bearer.url}/mcp", "--requirements", version)

    found = re.findall(r"^✓ ([\w-]+): (\d+) passed, 0 failed", said.stdout, re.MULTILINE)
    assert said.returncode == 0, said.stdout[-3000:]
    assert {name for name, count in found if count == "0"} == VACUOUS[version]
    assert len([name for name, count in found if count != "0"]) == PASSED[version]
