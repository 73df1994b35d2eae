"""The commands of costs: a page with charts that fits the terminal, and questions in options or files."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from rich.cells import cell_len

from tests.backstage import add_tenant
from tests.costs.billing import Row, Tenant, store, tenant_of
from tests.harness import InProcess, Server

pytestmark = pytest.mark.req("GW-008")
TODAY = datetime.now(UTC).date()
LONG = "Amazon Relational Database Service with a name that is far too long for any terminal"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with InProcess() as running:
        yield running


@pytest.fixture(scope="module")
def tenant(server: Server) -> Tenant:
    """Two months of two services in two currencies, and a budget."""
    made = tenant_of(server, add_tenant(server))
    days = [TODAY - timedelta(days=back) for back in range(60)]
    store(server, made, [
        *(Row(day, Decimal(12345) + day.day**3, service=LONG) for day in days),
        *(Row(day, Decimal(3), currency="EUR", service="Evil \x1b[2J", tags={"a": "b"}) for day in days),
    ])  # fmt: skip
    with server.client(server.token(tenant=made.slug)) as client:
        client.post("/api/budgets", json={"name": "All", "amount": "1000", "currency": "USD"}).raise_for_status()
    return made


def costs(server: Server, tenant: Tenant, *words: str, columns: int = 100) -> CompletedProcess[str]:
    """Type a command as the tenant's admin."""
    return server.cli("costs", *words, "--tenant", tenant.slug, environment={"COLUMNS": str(columns)})


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_the_page_fits_the_terminal_and_obeys_nothing_in_a_name(server: Server, tenant: Tenant, columns: int) -> None:
    shown = costs(server, tenant, "dashboard", columns=columns)

    assert shown.returncode == 0
    assert max(map(cell_len, shown.stdout.splitlines())) <= columns
    assert "\x1b" not in shown.stdout
    for words in ("USD", "EUR", "Services", "Moved most", "Budgets", "█"):
        assert words in shown.stdout


def test_a_tenant_without_costs_is_told_how_to_begin(server: Server) -> None:
    empty = tenant_of(server, add_tenant(server))

    shown = costs(server, empty, "dashboard")

    assert (shown.returncode, shown.stdout) == (0, "")
    assert "costs import" in shown.stderr


def test_a_question_in_options_is_a_table_or_json(server: Server, tenant: Tenant) -> None:
    words = ("query", "--by", "service", "--where", "currency=EUR", "--where", "effective>=100", "--measure",
             "effective", "--measure", "row_count", "--sort", "-row_count")  # fmt: skip

    table = costs(server, tenant, *words)
    answer = json.loads(costs(server, tenant, *words, "--json").stdout)

    assert table.stdout.splitlines()[0].split() == ["service", "currency", "effective", "row_count"]
    assert table.stdout.splitlines()[1].split()[-3:] == ["EUR", "180", "60"]
    assert answer["rows"] == [
        {"service": "Evil \x1b[2J", "currency": "EUR", "effective": "180", "row_count": 60}
    ]  # fmt: skip


def test_a_question_may_be_read_from_a_file(server: Server, tenant: Tenant, tmp_path: Path) -> None:
    file = tmp_path / "query.json"
    file.write_text(json.dumps({"dimensions": ["tag:a"], "filters": [{"field": "tag:a", "value": "b"}]}))

    answer = json.loads(costs(server, tenant, "query", "--file", str(file), "--json").stdout)
    file.write_text("{")
    broken = costs(server, tenant, "query", "--file", str(file))
    both = costs(server, tenant, "query", "--file", str(file), "--by", "service")

    assert answer["rows"] == [{"tag:a": "b", "currency": "EUR", "effective": "180"}]
    assert (broken.returncode, both.returncode) == (2, 2)


def test_what_is_wrong_with_a_question_is_said_with_the_nearest_name(server: Server, tenant: Tenant) -> None:
    unknown = costs(server, tenant, "query", "--by", "servise")
    unread = costs(server, tenant, "query", "--where", "service")

    assert (unknown.returncode, unread.returncode) == (1, 2)
    assert "did you mean 'service'" in unknown.stderr
