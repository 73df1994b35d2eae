"""`dragoman costs import`: what a person sees, and what a program gets."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backstage import add_tenant
from tests.costs.exports import row, sample, sums_of, totals, written
from tests.harness import InProcess, Server

pytestmark = pytest.mark.req("GW-005")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with InProcess() as running:
        yield running


@pytest.fixture
def slug(server: Server) -> str:
    return add_tenant(server)


def test_the_sample_is_imported_by_one_command(server: Server, slug: str, tmp_path: Path) -> None:
    content = sample()
    (tmp_path / "focus.csv").write_bytes(content)

    typed = server.cli("costs", "import", str(tmp_path / "focus.csv"), "--tenant", slug, "--json")

    report = json.loads(typed.stdout)
    assert (typed.returncode, report["state"], report["row_count"]) == (0, "done", 1000)
    assert sums_of(report) == totals(content)


def test_a_person_sees_periods_totals_and_the_rows_that_were_set_aside(
    server: Server, slug: str, tmp_path: Path
) -> None:
    file = tmp_path / "focus.csv"
    file.write_bytes(written([row(n, BilledCost="1,5" if n == 3 else "1000.25") for n in range(20)]))

    first = server.cli("costs", "import", str(file), "--tenant", slug)
    again = server.cli("costs", "import", str(file), "--tenant", slug)

    assert (first.returncode, again.returncode) == (0, 0)
    assert "registered aws account 123456789012" in first.stderr
    for said in ("✔ focus.csv", "2026-09", "19,004.75", "1 row was set aside", "line 4  BilledCost", "(1,5)"):
        assert said in first.stdout, first.stdout
    assert "the bill of aws account" in again.stderr
    assert "nothing changed" in again.stdout


def test_a_file_that_is_refused_ends_with_1_and_says_why(server: Server, slug: str, tmp_path: Path) -> None:
    file = tmp_path / "focus.csv"
    file.write_bytes(written([row(BilledCost="?")]))

    typed = server.cli("costs", "import", str(file), "--tenant", slug)

    assert typed.returncode == 1
    assert "IMPORT_REFUSED" in typed.stdout
    assert "1 of 1 rows cannot be read" in typed.stdout
    assert server.cli("costs", "import", str(tmp_path / "none.csv"), "--tenant", slug).returncode == 2
