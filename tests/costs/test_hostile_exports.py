"""Files that were made to do harm, and Parquet in its many types: the worst that happens is a refusal."""

import gzip
import random
import zlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from uuid import UUID, uuid4

import duckdb
import httpx
import pytest

from dragoman_costs.imports.errors import ImportRefused
from dragoman_costs.imports.reader import ExportReader
from tests.backstage import add_tenant, sql
from tests.costs.exports import add_account, imported, row, sums_of, totals, written
from tests.doors.rest.calling import problem
from tests.harness import InProcess, Server

pytestmark = pytest.mark.req("GW-005")
_FLIPS = 40


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with InProcess() as running:
        yield running


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with server.client(server.token(tenant=add_tenant(server))) as client:
        yield client


@pytest.fixture
def account(http: httpx.Client) -> str:
    return add_account(http)


def parquet(path: Path, query: str) -> bytes:
    """What a query gives, as a Parquet file."""
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        db.execute(f"COPY ({query}) TO '{path}' (FORMAT PARQUET)")
    return path.read_bytes()


TYPED = """
SELECT 0.1::DOUBLE AS BilledCost, 12345678901234567.123456789012345678::DECIMAL(38, 18) AS EffectiveCost,
    8e-7::DOUBLE AS ListCost, 7::BIGINT AS ContractedCost, '1' AS BillingAccountId, 'USD' AS BillingCurrency,
    TIMESTAMP '2026-09-01' AS BillingPeriodStart, TIMESTAMPTZ '2026-10-01 00:00:00+00' AS BillingPeriodEnd,
    'Usage' AS ChargeCategory, TIMESTAMPTZ '2026-09-02 01:00:00+02' AS ChargePeriodStart,
    DATE '2026-09-03' AS ChargePeriodEnd, 'Compute' AS ServiceCategory, 'VM' AS ServiceName, 'AWS' AS ProviderName,
    MAP {'team': 'blue', 'x/y': 'z'} AS Tags, [1, 2] AS x_List, NULL::INTEGER AS x_Null, 'NULL' AS ResourceId"""


def test_each_type_of_parquet_is_read_exactly(server: Server, http: httpx.Client, account: str, tmp_path: Path) -> None:
    report = imported(http, account, parquet(tmp_path / "a.parquet", TYPED), "focus.parquet")

    assert (report["state"], report["bad_count"]) == ("done", 0), report
    assert sums_of(report) == {
        "USD": {
            "billed": Decimal("0.1"), "effective": Decimal("12345678901234567.123456789012345678"),
            "list": Decimal("0.0000008"), "contracted": Decimal(7),
        }
    }  # fmt: skip
    (kept,) = sql(
        server,
        "SELECT r.day::text, r.tags::text, r.resource_id, (s.extra || r.extra)::text AS extra FROM cost_rows r "
        "JOIN cost_slices s ON s.id = r.slice_id WHERE s.account_id = $1",
        UUID(account),
    )
    assert (kept["day"], kept["tags"], kept["resource_id"]) == ("2026-09-01", '{"x/y": "z", "team": "blue"}', "")
    assert '"x_List": "[1,2]"' in kept["extra"]
    assert "x_Null" not in kept["extra"]


def test_parquet_and_csv_of_the_same_rows_add_up_to_the_same(http: httpx.Client, account: str, tmp_path: Path) -> None:
    content = written([row(n) for n in range(200)])
    (tmp_path / "a.csv").write_bytes(content)
    again = parquet(tmp_path / "a.parquet", f"SELECT * FROM read_csv('{tmp_path}/a.csv', nullstr = 'NULL')")

    report = imported(http, account, gzip.compress(again), "focus.parquet.gz")

    assert sums_of(report) == totals(content)


def test_a_gzip_bomb_of_two_gigabytes_is_refused(http: httpx.Client, account: str) -> None:
    member = gzip.compress(bytes(16_777_216))
    header = gzip.compress(written([row()]))

    report = imported(http, account, header + member * 128, "focus.csv.gz")

    assert report["error"]["details"]["reason"] == "TOO_LARGE", report


def test_a_file_that_unpacks_to_more_than_an_import_may_have_is_refused(tmp_path: Path) -> None:
    noise = random.Random(7).randbytes(700_000).hex().encode()
    with (
        InProcess({"DRAGOMAN_COSTS__MAX_IMPORT_BYTES": "1000000"}) as small,
        small.client(small.token()) as http,
    ):
        report = imported(http, add_account(http), zlib.compress(noise, wbits=31), "focus.csv.gz")
        too_large = {"file_name": "a.csv", "size_bytes": 1_000_001, "sha256": "0" * 64}

        assert report["error"]["details"]["reason"] == "TOO_LARGE", report
        problem(http.post("/api/cost-uploads", json=too_large), 400, "INVALID_PARAMS")


def test_text_that_looks_like_sql_is_text(server: Server, http: httpx.Client, account: str) -> None:
    evil = "'); DROP TABLE cost_rows; --"
    service = f"=cmd|' /C calc'!A0 {evil}"
    content = written([row(0, **{f'x"{evil}': evil, "ServiceName": service, "ResourceName": "\x01\x02"})])

    report = imported(http, account, content, "'; DROP TABLE cost_rows; --.csv")

    assert report["state"] == "done", report
    (kept,) = sql(
        server,
        "SELECT r.service, r.resource_name FROM cost_rows r JOIN cost_slices s ON s.id = r.slice_id "
        "WHERE s.account_id = $1",
        UUID(account),
    )
    assert tuple(kept) == (service, "\x01\x02")


async def test_damaged_parquet_ends_the_child_at_most(tmp_path: Path) -> None:
    whole = parquet(tmp_path / "a.parquet", f"{TYPED} FROM range(500)")
    reader = ExportReader(most_bytes=50_000_000, memory_bytes=268_435_456, timeout_s=60)
    chance = random.Random(2026)
    footer = int.from_bytes(whole[-8:-4], "little")
    read = refused = 0

    for number in range(_FLIPS):
        damaged = bytearray(whole)
        for _ in range(1 + number % 5):
            place = chance.randrange(len(whole) - footer - 8, len(whole) - 4)
            damaged[place] = chance.choice((0x00, 0x7F, 0xFF, chance.randrange(256)))
        work = tmp_path / str(number)
        work.mkdir()
        (work / "source").write_bytes(damaged)
        try:
            await reader.survey(uuid4(), work / "source", work)
            read += 1
        except ImportRefused:
            refused += 1
    await reader.stop()

    assert read + refused == _FLIPS
    assert refused
