"""Asking for costs: the dashboard and a mix of queries over HTTP, as the rows grow, beside DuckDB on Parquet."""

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import Any, Final
from uuid import UUID

import asyncpg
import duckdb
import httpx
from tests.backstage import add_tenant
from tests.costs.billing import tenant_of
from tests.harness import Server

from bench.subject import Effort
from bench.table import Line, Outcome
from dragoman.infra.ids import new_id
from dragoman_costs.slices.store import ROLL_UP

DASHBOARD_MS, QUERY_MS = 100.0, 300.0
_SMALLEST: Final = 100_000
_ACCOUNTS, _MONTHS = 20, 12
_ASKED: Final = 8
# Row `i` of slice `s`: an hour of a resource, which has a service, a region and tags of its own. The same in both.
_PG_ROWS: Final = """
INSERT INTO cost_rows (tenant_id, slice_id, line, day, charge_start, billed, effective, list, contracted, currency,
    provider, service, service_category, region, sub_account, sub_account_name, resource_id, resource_name,
    resource_type, charge_category, charge_description, pricing_category, quantity, unit, commitment_id,
    commitment_status, tags, extra)
SELECT $1, $2, i + 1, $3::date + (i % 28)::int, $3::date + (i % 28)::int, a, a, a * 2, a, 'USD', 'AWS',
    'service ' || r % 25, 'Compute',
    'region ' || r % 5, 'sub ' || r % 4, '', $5 || '-' || r, '', 'vm', 'Usage', 'an hour', 'Standard', 1,
    'Hours', '', '', jsonb_build_object('team', 'team ' || r % 7, 'env', 'env ' || r % 3), '{}'
FROM (SELECT i, i / 672 AS r, ((i * 7919 + $6::bigint) % 1000003)::numeric / 1000 AS a
      FROM generate_series(0, $4::bigint - 1) i) made"""
_DUCK_ROWS: Final = """
COPY (SELECT date_add(make_date(2026, 1 + (s % 12)::int, 1), to_days((i % 28)::int))::date AS day, s // 12 AS account,
    'service ' || (i // 672) % 25 AS service, 'region ' || (i // 672) % 5 AS region,
    'account ' || (s // 12) || '-' || (i // 672) AS resource, 'team ' || (i // 672) % 7 AS team, i + 1 AS line,
    ((i * 7919 + s) % 1000003)::DECIMAL(10, 0) * 0.001::DECIMAL(4, 3) AS effective
FROM range(240) slices(s), range({count}) made(i)) TO '{file}' (FORMAT parquet)"""
_OCTOBER: Final = {"start_date": "2026-10-01", "end_date": "2026-10-31"}
_IN_OCTOBER: Final = "day BETWEEN '2026-10-01' AND '2026-10-31'"
_SUM: Final = (
    "SELECT {by}, sum(effective) AS effective FROM '{file}' WHERE {where} GROUP BY ALL ORDER BY 2 DESC LIMIT 100"
)
# A question to us, and the same to DuckDB.
MIX: Final[dict[str, tuple[dict[str, Any], str, str]]] = {
    "service by month, a year": ({"dimensions": ["service"], "grain": "month", "limit": 1000},
                                 "service, date_trunc('month', day)", "true"),
    "account by day, a month": ({"dimensions": ["account"], "grain": "day", "limit": 1000, **_OCTOBER},
                                "account, day", _IN_OCTOBER),
    "region, a month": ({"dimensions": ["region"], **_OCTOBER}, "region", _IN_OCTOBER),
    "team, a quarter": ({"dimensions": ["tag:team"], "start_date": "2026-07-01", "end_date": "2026-09-30"},
                        "team", "day BETWEEN '2026-07-01' AND '2026-09-30'"),
    "top resources, a month": ({"dataset": "resources", "dimensions": ["resource"], **_OCTOBER}, "resource",
                               _IN_OCTOBER),
    "rows of a service, a day": ({"dataset": "rows", "start_date": "2026-10-05", "end_date": "2026-10-05",
                                  "filters": [{"field": "service", "value": "service 3"}]},
                                 "resource, line", "day = '2026-10-05' AND service = 'service 3'"),
}  # fmt: skip


def run(effort: Effort) -> Outcome:
    """Fill a tenant for each size, and ask each."""
    outcome = Outcome("Costs: the dashboard and structured queries, p95 over HTTP, beside DuckDB on the same rows")
    with tempfile.TemporaryDirectory() as outside, Server({"DRAGOMAN_COSTS__MAX_QUERY_ROWS": "20000000"}) as server:
        for rows in sorted({max(size, _SMALLEST) for size in effort.stored}):
            slug = add_tenant(server)
            count = rows // (_ACCOUNTS * _MONTHS)
            total = asyncio.run(_fill(server, tenant_of(server, slug).id, count))
            file = Path(outside) / f"{rows}.parquet"
            _duck(_DUCK_ROWS.format(count=count, file=file))
            outcome.lines += _ask(server, slug, rows, file, effort, total, outcome.figures)
    return outcome


async def _fill(server: Server, tenant: UUID, count: int) -> Any:
    """Make slices of so many rows with their sums; return what they add up to."""
    connection = await asyncpg.connect(server.database_url)
    try:
        await connection.execute("SET work_mem = '128MB'")
        for number in range(_ACCOUNTS):
            account, name = new_id(), f"account {number}"
            await connection.execute(
                "INSERT INTO cost_accounts (tenant_id, id, provider, identifier, name, status, credential_kind, "
                "credential_status, created_by) VALUES ($1, $2, 'aws', $3, $3, 'active', 'none', 'valid', 'bench')",
                tenant, account, name,
            )  # fmt: skip
            for month in range(_MONTHS):
                slice_id = new_id()
                await connection.execute(
                    "INSERT INTO cost_slices (tenant_id, id, account_id, period, part, state, import_id, file_name, "
                    "file_sha256, row_count) "
                    "VALUES ($1, $2, $3, make_date(2026, $4::int, 1), '', 'current', $2, 'f', '', $5)",
                    tenant, slice_id, account, month + 1, count,
                )  # fmt: skip
                first = await connection.fetchval("SELECT make_date(2026, $1::int, 1)", month + 1)
                await connection.execute(_PG_ROWS, tenant, slice_id, first, count, name, number * _MONTHS + month)
                for statement in ROLL_UP:
                    places = (tenant, slice_id, account)
                    await connection.execute(statement, *places)
        await connection.execute("VACUUM ANALYZE")
        return await connection.fetchval("SELECT sum(effective) FROM cost_totals_daily WHERE tenant_id = $1", tenant)
    finally:
        await connection.close()


def _ask(
    server: Server, slug: str, rows: int, file: Path, effort: Effort, total: Any, figures: dict[str, Any]
) -> list[Line]:
    ((theirs,),) = _duck(f"SELECT sum(effective) FROM '{file}'")
    if theirs != total:
        raise RuntimeError(f"not the same rows: {total} beside {theirs}")
    rounds = max(5, _ASKED * effort.rounds)
    with server.client(server.token(tenant=slug)) as client:
        client.timeout = httpx.Timeout(600)
        page = _timed(lambda: client.get("/api/dashboard", params=_OCTOBER).raise_for_status(), rounds)
        ours, beside = dict[str, list[float]](), dict[str, list[float]]()
        for name, (query, by, where) in MIX.items():
            ours[name] = _timed(
                lambda query=query: client.post("/api/costs/query", json=query).raise_for_status(), rounds
            )
            statement = _SUM.format(by=by, where=where, file=file)
            beside[name] = _timed(lambda statement=statement: _duck(statement), rounds)
    figures[str(rows)] = {"dashboard_ms": page, "queries_ms": ours, "duckdb_ms": beside}
    mixed = _p95([took for some in ours.values() for took in some])
    mixed_beside = _p95([took for some in beside.values() for took in some])
    shown = [
        Line(f"dashboard, {rows:,} rows", f"{_p95(page):.0f} ms", target=f"< {DASHBOARD_MS:.0f} ms",
             met=_p95(page) < DASHBOARD_MS),
        Line(f"mix of queries, {rows:,} rows", f"{mixed:.0f} ms", mixed / mixed_beside, target=f"< {QUERY_MS:.0f} ms",
             met=mixed < QUERY_MS),
    ]  # fmt: skip
    return shown + [
        Line(f"  {name}", f"{_p95(some):.0f} ms", _p95(some) / _p95(beside[name])) for name, some in ours.items()
    ]


def _duck(statement: str) -> list[Any]:
    with duckdb.connect() as connection:
        return connection.execute(statement).fetchall()


def _timed(ask: Callable[[], Any], rounds: int) -> list[float]:
    """Ask once to warm up, then so often; milliseconds."""
    ask()
    took: list[float] = []
    for _ in range(rounds):
        began = perf_counter()
        ask()
        took.append((perf_counter() - began) * 1000)
    return took


def _p95(took: Sequence[float]) -> float:
    return quantiles(took, n=20)[-1]
