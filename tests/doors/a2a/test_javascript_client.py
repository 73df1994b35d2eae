"""The official JavaScript client, as its users run it; where there is no `node`, these are skipped."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Server
from tests.patience import PATIENCE_S

SCRIPTS = Path(__file__).parent / "javascript"
GRPC = ("@grpc/grpc-js@1.14.7", "@bufbuild/protobuf@2.17.0")
BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"]
pytestmark = [pytest.mark.sdk, pytest.mark.external]


def converse(script: str, sdk: str, *arguments: str) -> Any:
    """What a script saw, with this version of the SDK."""
    home = install(sdk)
    # Node looks for packages beside the script, and then in every folder above it.
    with tempfile.TemporaryDirectory(dir=home) as folder:
        shutil.copytree(SCRIPTS, folder, dirs_exist_ok=True)
        ended = subprocess.run(
            ["node", str(Path(folder) / script), *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def install(sdk: str) -> Path:
    """Where the packages are; fetched once on a machine, and never into the tree."""
    if not all(map(shutil.which, ("node", "npm"))):
        pytest.skip("the official JavaScript client needs node and npm")
    home = Path(tempfile.gettempdir()) / f"dgt-a2a-js-{sdk}"
    if home.exists():
        return home
    fresh = Path(tempfile.mkdtemp(prefix=f"{home.name}-", dir=home.parent))
    (fresh / "package.json").write_text('{"private": true}')
    wanted = [f"@a2a-js/sdk@{sdk}", *GRPC]
    try:
        ended = subprocess.run(
            ["npm", "install", "--save-exact", "--ignore-scripts", "--no-audit", "--no-fund", *wanted],
            cwd=fresh, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        failure = "" if ended.returncode == 0 else ended.stderr.strip()[-300:]
    except subprocess.TimeoutExpired:
        failure = "it takes too long"
    if failure:
        shutil.rmtree(fresh)
        pytest.skip(f"npm cannot fetch {' '.join(wanted)}: {failure}")
    try:
        fresh.rename(home)
    except OSError:  # another run was first
        assert home.exists()
        shutil.rmtree(fresh)
    return home


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_conversation_in_a2a_1_0(served: Server, binding: str) -> None:
    seen = converse("conversation.mjs", "1.3.0", served.url, served.token(), binding)

    assert seen["version"] == "1.0"
    assert "identity" in {skill["id"] for skill in seen["extendedCard"]["skills"]}
    assert seen["completed"]["artifacts"][0]["parts"] == [{"text": "Hello from TCK"}]
    assert seen["asked"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert seen["answered"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert (seen["answered"]["id"], seen["found"]) == (seen["asked"]["id"], seen["answered"])
    assert [next(iter(event)) for event in seen["streamed"]] == [
        "task",
        "statusUpdate",
        "artifactUpdate",
        "statusUpdate",
    ]
    assert seen["streamed"][-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert seen["cancel"]["cancelled"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert seen["cancel"]["rest"][-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert "TaskNotFound" in seen["missing"]["name"]
    assert "TaskNotCancelable" in seen["ended"]["name"]
    assert any(word in seen["stranger"]["message"] for word in ("401", "valid credentials are required"))


def test_a_conversation_in_a2a_0_3(served: Server) -> None:
    seen = converse("older.mjs", "0.3.14", served.url, served.token())

    assert seen["completed"]["artifacts"][0]["parts"] == [{"kind": "text", "text": "Hello from TCK"}]
    assert seen["asked"]["status"]["state"] == "input-required"
    assert seen["answered"]["status"]["state"] == "completed"
    assert (seen["answered"]["id"], seen["found"]) == (seen["asked"]["id"], seen["answered"])
    assert [event["kind"] for event in seen["streamed"]] == [
        "task",
        "status-update",
        "artifact-update",
        "status-update",
    ]
    assert seen["streamed"][-1]["final"]
    assert seen["cancel"]["cancelled"]["status"]["state"] == "canceled"
    assert seen["cancel"]["rest"][-1]["status"]["state"] == "canceled"
    assert "TaskNotFound" in seen["missing"]["name"]
    assert "TaskNotCancelable" in seen["ended"]["name"]
