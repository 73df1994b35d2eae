"""Importing a billing export: from the request to rows and sums that are shown, beside DuckDB reading the same file."""

import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any, Final

import duckdb
import httpx
from tests.costs.exports import OVER, add_account
from tests.harness import Server

from bench.process import cpu_s, tree_cpu_s
from bench.subject import Effort
from bench.table import Line, Outcome

PER_S: Final = 100_000
_LOOK_S: Final = 0.02
# 44 columns as providers have them, some 600 bytes a row: 25 services, 20,000 resources, three tags on most rows.
_ROWS: Final = """
SELECT 'us-east-1' || chr(97 + (i % 3)::INT) AS AvailabilityZone, amount AS BilledCost,
    '123456789012' AS BillingAccountId, 'Acme' AS BillingAccountName, 'USD' AS BillingCurrency,
    '2026-10-01 00:00:00' AS BillingPeriodEnd, '2026-09-01 00:00:00' AS BillingPeriodStart, 'Usage' AS ChargeCategory,
    NULL AS ChargeClass, 'Charge for usage type ' || (i % 200) || ' per hour in US East' AS ChargeDescription,
    'Usage-Based' AS ChargeFrequency,
    strftime(TIMESTAMP '2026-09-01' + to_hours((i % 720)::INT + 1), '%Y-%m-%d %H:%M:%S') AS ChargePeriodEnd,
    strftime(TIMESTAMP '2026-09-01' + to_hours((i % 720)::INT), '%Y-%m-%d %H:%M:%S') AS ChargePeriodStart,
    NULL AS CommitmentDiscountCategory, NULL AS CommitmentDiscountId, NULL AS CommitmentDiscountName,
    NULL AS CommitmentDiscountStatus, NULL AS CommitmentDiscountType, quantity AS ConsumedQuantity,
    'Hours' AS ConsumedUnit, amount AS ContractedCost, 0.0000004 AS ContractedUnitPrice, amount AS EffectiveCost,
    'Amazon Web Services, Inc.' AS InvoiceIssuerName, amount AS ListCost, 0.0000004 AS ListUnitPrice,
    'Standard' AS PricingCategory, quantity AS PricingQuantity, 'Hours' AS PricingUnit, 'AWS' AS ProviderName,
    'Amazon Web Services, Inc.' AS PublisherName, 'us-east-' || (i % 4) AS RegionId,
    'US East ' || (i % 4) AS RegionName,
    'arn:aws:ec2:us-east-1:123456789012:instance/i-' || lpad((i % 20000)::VARCHAR, 12, '0') AS ResourceId,
    'web-' || (i % 20000) AS ResourceName, 'Instance' AS ResourceType, 'Compute' AS ServiceCategory, i AS Id,
    'Service ' || (i % 25) AS ServiceName, 'SKU' || (i % 200) AS SkuId, 'SKUP' || (i % 400) AS SkuPriceId,
    '5173892878' || (i % 10) AS SubAccountId, 'Team ' || (i % 10) AS SubAccountName,
    CASE WHEN i % 4 > 0 THEN '{"application": "app-' || (i % 40) || '", "environment": "' ||
        (['dev', 'prod', 'test'])[(i % 3)::INT + 1] || '", "business_unit": "unit' || (i % 5) || '"}' END AS Tags
FROM (SELECT i, (((i * 7919) % 1000003)::DECIMAL(38, 10) / 100000000)::DECIMAL(20, 10) AS amount,
    ((i % 1000)::DECIMAL(38, 6) / 7)::DECIMAL(20, 9) AS quantity FROM range(?) t(i))"""


def run(effort: Effort) -> Outcome:
    """Import the same rows as CSV and as Parquet, each into an account of its own."""
    outcome = Outcome(f"Imports: {effort.billed:,} rows of a billing export, PostgreSQL on the same cores")
    with tempfile.TemporaryDirectory() as outside:
        files = _make(Path(outside) / "demo", effort.billed)
        with (
            Server({"DRAGOMAN_COSTS__IMPORT_DIRS": outside}) as server,
            server.client(server.token()) as client,
        ):
            for file in files:
                ours, plain = [], []
                for _ in range(max(1, effort.rounds // 2)):
                    plain.append(_plain_s(file))
                    ours.append(_import(server, client, file.name))
                _add(outcome, file, effort.billed, ours, plain)
    return outcome


def _make(directory: Path, rows: int) -> list[Path]:
    directory.mkdir()
    files = [directory / "focus.csv", directory / "focus.parquet"]
    with duckdb.connect() as db:
        db.execute(f"CREATE TABLE bill AS {_ROWS}", [rows])
        db.execute(f"COPY bill TO '{files[0]}' (FORMAT CSV, NULLSTR 'NULL')")
        db.execute(f"COPY bill TO '{files[1]}' (FORMAT PARQUET)")
    return files


def _plain_s(file: Path) -> float:
    """Let DuckDB keep all values in memory, and sum what a dashboard shows."""
    began = perf_counter()
    with duckdb.connect() as db:
        db.execute(f"CREATE TABLE bill AS SELECT * FROM '{file}'")
        db.execute("SELECT ServiceName, BillingCurrency, sum(EffectiveCost) FROM bill GROUP BY ALL").fetchall()
    return perf_counter() - began


def _import(server: Server, client: httpx.Client, name: str) -> dict[str, Any]:
    account = add_account(client)
    before, beside, began = cpu_s(server.pid), tree_cpu_s(server.pid), perf_counter()
    begun = client.post(f"/api/cloud-accounts/{account}/import", json={"path": name}).raise_for_status().json()["data"]
    while client.get(f"/api/tasks/{begun['task_id']}").json()["data"]["state"] not in OVER:
        sleep(_LOOK_S)
    took_s = perf_counter() - began
    report = client.get(f"/api/cost-imports/{begun['import_id']}").json()["data"]
    if report["state"] != "done":
        raise RuntimeError(f"the import ended as {report['state']}: {report['error']}")
    return {
        "took_s": took_s,
        "rows": report["row_count"],
        "cpu_s": cpu_s(server.pid) - before,
        "beside_s": tree_cpu_s(server.pid) - beside,
    }


def _add(outcome: Outcome, file: Path, rows: int, ours: list[dict[str, Any]], plain: list[float]) -> None:
    best = min(ours, key=lambda one: one["took_s"])
    per_s = rows / best["took_s"]
    kind = file.suffix.lstrip(".")
    outcome.lines += [
        Line(f"{kind}, DuckDB alone in memory", f"{rows / min(plain):,.0f}/s"),
        Line(
            f"{kind}, imported", f"{per_s:,.0f}/s", min(plain) / best["took_s"], 1e6 * best["cpu_s"] / rows,
            1e6 * median(one["cpu_s"] for one in ours) / rows, 1e6 * best["beside_s"] / rows, f">= {PER_S:,}/s",
            per_s >= PER_S,
        ),
    ]  # fmt: skip
    outcome.figures[kind] = {"imports": ours, "duckdb_s": plain}
