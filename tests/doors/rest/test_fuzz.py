import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.doors.rest.calling import new_tenant
from tests.harness import InProcess, Server

DOCUMENT = "/openapi.json"
METHODS = ("get", "put", "post", "delete", "patch", "head", "options")
SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
# The rules for names, addresses and times are stricter than a schema can say, and a time may be given in seconds.
LEFT_OUT = "positive_data_acceptance,negative_data_rejection"


@pytest.fixture(scope="module")
def prey() -> Iterator[Server]:
    """A server of their own: what is made up at random may suspend, revoke and delete."""
    with InProcess({"DRAGOMAN_LIMITS__A2A_TENANT_PER_MIN": "1000000"}) as running:
        yield running


def operations(server: Server) -> int:
    """Count the operations of the document that the server gives, but for the document itself, which is not tried."""
    paths: dict[str, dict[str, object]] = httpx.get(f"{server.url}{DOCUMENT}").json()["paths"]
    return sum(method in METHODS for path, item in paths.items() if path != DOCUMENT for method in item)


@pytest.mark.req("GW-405", "GW-406")
@pytest.mark.parametrize(
    ("role", "phases", "examples"),
    [
        pytest.param("super_admin", "fuzzing", 1, id="short"),
        pytest.param("super_admin", "coverage,fuzzing", 10, marks=pytest.mark.external),
        pytest.param("org_admin", "fuzzing", 10, marks=pytest.mark.external),
    ],
)
def test_nothing_made_up_from_the_document_leads_out_of_the_document(
    prey: Server, tmp_path: Path, role: str, phases: str, examples: int
) -> None:
    """No failure of ours, no status, header, type or shape that is not documented, no door open without credentials."""
    tenant = "demo" if role == "super_admin" else new_tenant(prey)["slug"]
    # One worker: CPython 3.11 loses count of its recursion when two threads parse source at once.
    said = subprocess.run(
        [
            str(SCHEMATHESIS), "run", f"{prey.url}/openapi.json", "--phases", phases, "--max-examples", str(examples),
            "--header", f"Authorization: Bearer {prey.token(role=role, tenant=tenant, user='fuzzer')}",
            "--exclude-checks", LEFT_OUT, "--seed", "4711", "--generation-database", "none", "--workers", "1",
            "--no-color", "--no-shrink", "--request-timeout", "60",
        ],
        cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip

    assert said.returncode == 0, said.stdout[-8000:] + said.stderr[-2000:]
    assert f"Tested: {operations(prey)}\n" in said.stdout, said.stdout[-8000:]
    assert "operation.failed" not in prey.log.read_text()
