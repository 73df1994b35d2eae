"""The parity suite as its users run it: a command against a running server."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.parity import read_traces
from dragoman.parity.doors import DOORS
from tests.harness import DRAGOMAN, InProcess, Server

# Every call of the shell is a process, and the suite makes dozens.
# Below the 300 s of pytest-timeout, so that what the suite has said by then is shown.
LONGEST_S = 280


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    # What is compared are doors; a machine that stands still for seconds would add an attempt to some of them.
    settings = {"DRAGOMAN_LIMITS__A2A_TENANT_PER_MIN": "1000000", "DRAGOMAN_TASKS__LEASE_S": "60"}
    with InProcess(settings) as running:
        yield running


def parity(server: Server, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(DRAGOMAN), "parity", "run", "--url", server.url, *words]
    return subprocess.run(
        command, env=server.environment, capture_output=True, text=True, timeout=LONGEST_S, check=False
    )


@pytest.mark.req("ORC-PAR-1", "ORC-COR-1", "ORC-COR-2")
def test_every_golden_trace_comes_to_the_same_on_every_door(server: Server) -> None:
    done = parity(server, "--json")

    report = json.loads(done.stdout)
    assert "findings" in report, done.stdout + done.stderr
    assert [one for one in report["findings"] if one["wrong"]] == []
    assert len(report["findings"]) == len(read_traces()) * len(DOORS)
    assert (report["equal"], done.returncode) == (True, 0)


def test_a_door_that_differs_is_named_with_what_differs(server: Server, tmp_path: Path) -> None:
    steps = [{"call": "task_submit", "arguments": {"envelope": {}}, "expect": {"error": {"code": "SOMETHING_ELSE"}}}]
    (tmp_path / "wrong.json").write_text(json.dumps({"name": "a wrong hope", "steps": steps}))

    done = parity(server, "--trace", str(tmp_path), "--door", "rest")

    assert done.returncode == 1
    assert 'error.code: "INVALID_PARAMS" instead of "SOMETHING_ELSE"' in done.stdout
    assert "1 of 1 differ" in done.stdout


@pytest.mark.parametrize("text", ["", "[]", '{"name": "no steps"}', '{"name": "x", "steps": [{}]}'])
def test_a_file_that_is_no_trace_is_wrong_usage(server: Server, tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.json").write_text(text)

    done = parity(server, "--trace", str(tmp_path / "bad.json"))

    assert (done.returncode, "is no trace" in done.stderr) == (2, True)
