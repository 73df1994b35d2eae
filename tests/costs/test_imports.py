"""Imports of billing exports, from a file to the last decimal of its sums."""

import threading
from collections.abc import Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from tests.backstage import add_tenant, sql
from tests.costs.exports import (
    add_account,
    begin_import,
    ended,
    imported,
    packed,
    row,
    sample,
    sums_of,
    totals,
    written,
)
from tests.costs.exports import (
    upload as begun_upload,
)
from tests.doors.rest.calling import data, problem
from tests.harness import InProcess, Server, wait_for
from tests.tenants import beside

pytestmark = pytest.mark.req("GW-005")
# Every column of every kind of sum, those of slices that are shown.
SUMS = {
    "cost_totals_daily": "day, provider, currency, billed, effective, list, contracted, untagged, row_count",
    "cost_services_daily": "day, provider, service, charge_category, currency, billed, effective, list, contracted, "
    "untagged, row_count",
    "cost_daily": "day, provider, service, service_category, region, sub_account, sub_account_name, charge_category, "
    "pricing_category, currency, billed, effective, list, contracted, row_count",
    "cost_tags_daily": "day, tag_key, tag_value, provider, service, charge_category, currency, billed, effective, "
    "list, contracted, row_count",
    "cost_resources_daily": "day, resource_id, resource_name, resource_type, provider, service, region, sub_account, "
    "charge_category, pricing_category, unit, currency, billed, effective, list, contracted, quantity, row_count",
}


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exports")


@pytest.fixture(scope="module")
def server(exports: Path) -> Iterator[Server]:
    with InProcess({"DRAGOMAN_COSTS__IMPORT_DIRS": str(exports), "DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1"}) as running:
        yield running


@pytest.fixture
def slug(server: Server) -> str:
    return add_tenant(server)


@pytest.fixture
def http(server: Server, slug: str) -> Iterator[httpx.Client]:
    with server.client(server.token(tenant=slug)) as client:
        yield client


@pytest.fixture
def account(http: httpx.Client) -> str:
    return add_account(http)


def shown(server: Server, account: str, table: str) -> list[tuple[Any, ...]]:
    """The sums of one kind that readers see of an account."""
    statement = f"""
        SELECT {SUMS[table]} FROM {table}
        WHERE slice_id IN (SELECT id FROM cost_slices WHERE state = 'current' AND account_id = $1)"""
    return sorted((tuple(one) for one in sql(server, statement, UUID(account))), key=str)


def test_the_sample_is_imported_with_totals_that_equal_an_independent_sum(http: httpx.Client, account: str) -> None:
    content = sample()

    report = imported(http, account, content)

    assert (report["state"], report["row_count"], report["bad_count"]) == ("done", 1000, 0), report
    assert sums_of(report) == totals(content)


def test_every_kind_of_sum_equals_the_sums_that_postgresql_makes_of_the_rows(
    server: Server, http: httpx.Client, account: str
) -> None:
    flat = ['{"a": "b", "c": null}', "{}", '{"a": true, "n": 7}', None]
    tags = [*flat, "no json", '{"a": {"b": 1}}', '{"a":"1","a":"2"}']
    rows = [row(n, Tags=tags[n % len(tags)], BillingCurrency="EUR" if n % 3 else "USD") for n in range(60)]
    finer = [{**one, "EffectiveCost": "1.050000000000000000000"} for one in rows]
    other = add_account(http)

    exact = imported(http, account, written(rows))
    inexact = imported(http, other, written(finer))

    assert (exact["state"], inexact["state"]) == ("done", "done")
    for table in SUMS:
        assert shown(server, account, table) == shown(server, other, table), table
    assert sum(one[-1] for one in shown(server, account, "cost_services_daily")) == 60


def test_decimals_are_exact_however_many_there_are(http: httpx.Client, account: str) -> None:
    fine = "0.1234567890123456789012345678901234567890"
    content = written(
        [row(0, EffectiveCost=fine), row(1, EffectiveCost="8e-30"), row(2, EffectiveCost="-999999999999.5")]
    )

    report = imported(http, account, content)

    assert sums_of(report) == totals(content)


def test_currencies_are_kept_apart(http: httpx.Client, account: str) -> None:
    content = written([row(n, BillingCurrency=["USD", "EUR", "JPY"][n % 3]) for n in range(9)])

    report = imported(http, account, content)

    assert set(sums_of(report)) == {"USD", "EUR", "JPY"}
    assert sums_of(report) == totals(content)


def test_times_without_an_offset_are_utc_and_others_are_converted(
    server: Server, http: httpx.Client, account: str
) -> None:
    times = [
        "2026-09-02 00:30:00", "2026-09-02T00:30:00Z", "2026-09-02T00:30:00+02:00", "2026-09-02T00:30:00-05:00",
        "2026-09-02 00:30+02", "2026-09-02 00:30 EST", "2026-09-02", "2026-09-02T00:30:00.5Z",
    ]  # fmt: skip

    imported(http, account, written([row(n, ChargePeriodStart=time) for n, time in enumerate(times)]))

    statement = """
        SELECT day::text, (charge_start AT TIME ZONE 'UTC')::text
        FROM cost_rows r JOIN cost_slices s ON s.id = r.slice_id WHERE s.account_id = $1 ORDER BY line"""
    found = [tuple(one) for one in sql(server, statement, UUID(account))]
    assert [day[-2:] for day, _ in found] == ["02", "02", "01", "02", "01", "02", "02", "02"]
    assert [start[11:16] for _, start in found] == [
        "00:30", "00:30", "22:30", "05:30", "22:30", "05:30", "00:00", "00:30",
    ]  # fmt: skip


def test_null_is_null_and_columns_that_are_not_known_are_kept(server: Server, http: httpx.Client, account: str) -> None:
    rows = [
        row(0, ResourceId="NULL", RegionId='"NULL"', x_Second="é,\n\"'"),
        row(1, ResourceId="", x_Own=None, x_Second="s"),
    ]

    imported(http, account, written(rows))

    statement = """
        SELECT line, resource_id, s.extra || r.extra AS extra
        FROM cost_rows r JOIN cost_slices s ON s.id = r.slice_id
        WHERE s.account_id = $1 ORDER BY line"""
    first, second = sql(server, statement, UUID(account))
    assert (first["resource_id"], second["resource_id"]) == ("", "")
    assert '"x_Own": "kept"' in first["extra"]
    assert "x_Own" not in second["extra"]
    assert '"BillingAccountName": "Acme"' in second["extra"]


def test_the_same_file_again_changes_nothing_and_says_so(server: Server, http: httpx.Client, account: str) -> None:
    content = written([row(n) for n in range(5)])
    first = imported(http, account, content)
    slices = sql(server, "SELECT id FROM cost_slices WHERE account_id = $1 AND state = 'current'", UUID(account))

    again = imported(http, account, content, "renamed.csv")

    assert (first["state"], again["state"]) == ("done", "unchanged")
    assert [period["unchanged"] for period in again["periods"]] == [True]
    assert again["totals"] == first["totals"]
    assert (
        sql(server, "SELECT id FROM cost_slices WHERE account_id = $1 AND state = 'current'", UUID(account)) == slices
    )


def test_another_file_replaces_its_periods_and_leaves_the_others(
    server: Server, http: httpx.Client, account: str
) -> None:
    august = {"BillingPeriodStart": "2026-08-01", "BillingPeriodEnd": "2026-09-01", "ChargePeriodStart": "2026-08-05"}
    imported(http, account, written([row(0), row(1), row(2, **august)]))

    imported(http, account, written([row(5)]))

    found = shown(server, account, "cost_totals_daily")
    assert sorted((one[0].month, one[3]) for one in found) == [(8, Decimal("3.10")), (9, Decimal("6.10"))]


def test_parts_are_added_to_each_other_and_a_whole_file_replaces_them(
    server: Server, http: httpx.Client, account: str
) -> None:
    def billed() -> Decimal:
        return sum((one[3] for one in shown(server, account, "cost_totals_daily")), Decimal())

    imported(http, account, written([row(0)]), "a.csv", part=True)
    imported(http, account, written([row(1)]), "b.csv", part=True)
    both = billed()
    imported(http, account, written([row(2)]), "a.csv", part=True)
    replaced = billed()
    imported(http, account, written([row(3)]), "c.csv")

    assert (both, replaced, billed()) == (Decimal("3.20"), Decimal("5.20"), Decimal("4.10"))


def test_a_file_of_many_periods_is_shown_period_by_period(http: httpx.Client, account: str) -> None:
    periods = [{"BillingPeriodStart": f"{year}-{month:02d}-01"} for year in (2025, 2026) for month in range(1, 13)]

    report = imported(http, account, written([row(n, **period) for n, period in enumerate(periods)]))

    assert [(one["period"], one["row_count"]) for one in report["periods"]] == [
        (period["BillingPeriodStart"], 1) for period in periods
    ]


@pytest.mark.parametrize("pack", [packed, lambda content: packed(content[:1000]) + packed(content[1000:])])
def test_a_file_may_be_packed(http: httpx.Client, account: str, pack: Any) -> None:
    content = written([row(n) for n in range(50)])

    report = imported(http, account, pack(content), "focus.csv.gz")

    assert sums_of(report) == totals(content)


def test_rows_that_cannot_be_read_are_set_aside_with_line_column_and_reason(
    server: Server, http: httpx.Client, account: str
) -> None:
    rows = [row(n) for n in range(100)]
    rows[10] = row(10, BilledCost="1,5")
    rows[20] = row(20, ChargePeriodStart="2026-13-01")
    rows[30] = row(30, BillingCurrency="dollars")
    rows[40] = row(40, EffectiveCost=None)
    rows[50] = row(50, ConsumedQuantity="many")
    rows[60] = row(60, ResourceId="x" * 1_001)
    good = [one for n, one in enumerate(rows) if n not in (10, 20, 30, 40, 50, 60)]
    lines = written(rows).split(b"\n")
    lines[81] = b"too,few"

    report = imported(http, account, b"\n".join(lines))

    assert (report["state"], report["row_count"], report["bad_count"]) == ("done", 93, 7), report
    place = f"/api/cost-imports/{report['id']}/bad-rows"
    answered = http.get(place, params={"limit": 4}).json()
    rest = http.get(place, params={"limit": 4, "cursor": answered["meta"]["nextCursor"]}).json()
    bad = [*answered["data"], *rest["data"]]
    assert [(one["line"], one["column"], one["value"] and one["value"][:10]) for one in bad] == [
        (11, "BilledCost", "1,5"), (21, "ChargePeriodStart", "2026-13-01"), (31, "BillingCurrency", "dollars"),
        (41, "EffectiveCost", None), (51, "ConsumedQuantity", "many"), (61, "ResourceId", "x" * 10),
        (81, "", "too,few"),
    ]  # fmt: skip
    kept = [one for one in good if one != rows[80]]
    assert sums_of(report) == totals(written(kept))
    statement = "SELECT max(line) FROM cost_rows r JOIN cost_slices s ON s.id = r.slice_id WHERE s.account_id = $1"
    last = sql(server, statement, UUID(account))
    assert last[0][0] == 100


def refused(report: dict[str, Any]) -> tuple[str, str]:
    assert report["error"]["code"] == "IMPORT_REFUSED", report
    return report["state"], report["error"]["details"]["reason"]


def test_too_many_bad_rows_fail_the_import_and_leave_what_was_shown(
    server: Server, http: httpx.Client, account: str
) -> None:
    before = imported(http, account, written([row(0)]))
    shown_before = shown(server, account, "cost_services_daily")

    report = imported(http, account, written([row(n, BilledCost="?" if n < 2 else "1") for n in range(10)]))

    assert refused(report) == ("failed", "TOO_MANY_BAD_ROWS")
    assert "line 1, BilledCost" in report["error"]["message"]
    assert (report["bad_count"], report["totals"]) == (2, [])
    assert before["state"] == "done"
    assert shown(server, account, "cost_services_daily") == shown_before


def without(*names: str) -> bytes:
    return written([{name: value for name, value in row().items() if name not in names}])


@pytest.mark.parametrize(
    ("content", "reason", "said"),
    [
        (written([row()], delimiter=";"), "WRONG_DELIMITER", "semicolon"),
        (written([row()], delimiter="\t"), "WRONG_DELIMITER", "tab"),
        (without("BilledCost", "ServiceName"), "MISSING_COLUMNS", "BilledCost, ServiceName"),
        (without("ProviderName"), "MISSING_COLUMNS", "ProviderName"),
        (b"x" + written([row()]).split(b"\n")[0] + b",BilledCost,billedcost\n", "COLUMN_TWICE", "BilledCost"),
        (written([row()]).split(b"\n")[0] + b"\n", "EMPTY", "no rows"),
        (b"\n", "EMPTY", "empty"),
        (packed(written([row()]))[:-20], "UNREADABLE", "gzip"),
        (b"\x1f\x8b" + b"nonsense" * 9, "UNREADABLE", ""),
        (b"%PDF-1.7\n\x00\x00", "UNREADABLE", "neither CSV"),
        (b"PAR1" + b"\xff" * 400 + b"PAR1", "UNREADABLE", ""),
        (b"\xff\xfe" + written([row()]).decode().encode("utf-16-le"), "UNREADABLE", "neither CSV"),
        (written([row(BilledCost="NULL")]), "TOO_MANY_BAD_ROWS", "BilledCost"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_billing_export_is_refused_with_the_reason(
    http: httpx.Client, account: str, content: bytes, reason: str, said: str
) -> None:
    report = imported(http, account, content)

    assert refused(report) == ("failed", reason)
    assert said in report["error"]["message"]
    assert data(http.get(f"/api/tasks/{report['task_id']}"))["error"]["code"] == "IMPORT_REFUSED"


def test_the_names_of_columns_may_be_written_in_any_case_and_begin_with_a_byte_order_mark(
    http: httpx.Client, account: str
) -> None:
    header, _, rest = written([row(0), row(1)]).partition(b"\n")

    report = imported(http, account, b"\xef\xbb\xbf" + header.lower() + b"\r\n" + rest.replace(b"\n", b"\r\n"))

    assert (report["state"], report["row_count"]) == ("done", 2), report


def test_focus_1_3_names_the_provider_otherwise(server: Server, http: httpx.Client, account: str) -> None:
    one = row()
    one["ServiceProviderName"] = one.pop("ProviderName")

    report = imported(http, account, written([one]))

    assert report["state"] == "done"
    assert shown(server, account, "cost_totals_daily")[0][1] == "AWS"


def test_an_upload_is_taken_up_again_and_must_be_whole(http: httpx.Client, account: str) -> None:
    new = {"file_name": "focus.csv", "size_bytes": 4_194_305, "sha256": "0" * 64}
    begun = data(http.post("/api/cost-uploads", json=new), 201)
    place, one_byte = f"/api/cost-uploads/{begun['id']}", {"number": 2, "content": "QQ=="}
    given = {"upload_id": begun["id"]}

    for _ in range(2):
        data(http.post(f"{place}/parts", json=one_byte))

    assert (begun["parts"], begun["missing_parts"]) == (2, [1, 2])
    assert data(http.get(place))["missing_parts"] == [1]
    problem(http.post(f"/api/cloud-accounts/{account}/import", json=given), 409, "UPLOAD_INCOMPLETE")
    problem(http.post(f"{place}/account", json={}), 409, "UPLOAD_INCOMPLETE")
    problem(http.post(f"{place}/parts", json={"number": 3, "content": "QQ=="}), 400, "INVALID_PARAMS")
    problem(http.post(f"{place}/parts", json={"number": 1, "content": "QQ=="}), 400, "INVALID_PARAMS")
    problem(http.post(f"{place}/parts", json={"number": 1, "content": "no base64"}), 400, "INVALID_PARAMS")
    problem(http.post("/api/cost-uploads", json={**new, "size_bytes": 2**40}), 400, "INVALID_PARAMS")


def test_an_upload_with_another_sha256_is_refused(http: httpx.Client, account: str) -> None:
    new = {"file_name": "focus.csv", "size_bytes": 1, "sha256": "0" * 64}
    begun = data(http.post("/api/cost-uploads", json=new), 201)
    data(http.post(f"/api/cost-uploads/{begun['id']}/parts", json={"number": 1, "content": "QQ=="}))

    accepted = data(http.post(f"/api/cloud-accounts/{account}/import", json={"upload_id": begun["id"]}), 202)

    assert refused(ended(http, accepted)) == ("failed", "WRONG_SHA256")


def test_an_upload_is_removed_once_it_is_imported(http: httpx.Client, account: str) -> None:
    accepted = begin_import(http, account, written([row()]))
    report = ended(http, accepted)

    problem(http.get(f"/api/cost-uploads/{report['source']['upload_id']}"), 404, "NOT_FOUND")


def test_a_file_of_the_server_is_read_below_the_directory_of_the_tenant_alone(
    http: httpx.Client, account: str, slug: str, exports: Path
) -> None:
    content = written([row(n) for n in range(3)])
    for place in (exports / slug / "2026", exports / "another"):
        place.mkdir(parents=True)
        (place / "focus.csv").write_bytes(content)
    (exports / slug / "link.csv").symlink_to(exports / "another" / "focus.csv")
    at = f"/api/cloud-accounts/{account}/import"

    report = ended(http, data(http.post(at, json={"path": "2026/focus.csv"}), 202))

    assert (report["state"], report["file_name"], sums_of(report)) == ("done", "focus.csv", totals(content))
    for path in (
        "../another/focus.csv",
        str(exports / "another" / "focus.csv"),
        "link.csv",
        "/etc/passwd",
        "2026",
        "none",
    ):
        assert problem(http.post(at, json={"path": path}), 400, "IMPORT_REFUSED")["details"]["reason"] == "NO_SUCH_FILE"


def test_a_private_address_is_refused_and_one_source_must_be_named(http: httpx.Client, account: str) -> None:
    at = f"/api/cloud-accounts/{account}/import"

    problem(http.post(at, json={"url": "https://10.0.0.1/focus.csv"}), 400, "ADDRESS_REFUSED")
    problem(http.post(at, json={"url": "s3://bucket/focus.csv"}), 400, "ADDRESS_REFUSED")
    problem(http.post(at, json={}), 400, "INVALID_PARAMS")
    problem(http.post(at, json={"url": "https://a.example", "path": "a"}), 400, "INVALID_PARAMS")
    problem(http.post(f"/api/cloud-accounts/{uuid4()}/import", json={"path": "a"}), 404, "NOT_FOUND")


def test_two_tenants_import_at_once_and_see_their_own_alone(server: Server, http: httpx.Client, account: str) -> None:
    mine, theirs = written([row(n) for n in range(40)]), written([row(n, BilledCost="9") for n in range(30)])
    with server.client(server.token(tenant=add_tenant(server))) as other:
        foreign = add_account(other)
        begun = begin_import(http, account, mine), begin_import(other, foreign, theirs)

        reports = ended(http, begun[0]), ended(other, begun[1])

        assert [sums_of(report) for report in reports] == [totals(mine), totals(theirs)]
        problem(other.get(f"/api/cost-imports/{begun[0]['import_id']}"), 404, "NOT_FOUND")
        problem(other.get(f"/api/cost-imports/{begun[0]['import_id']}/bad-rows"), 404, "NOT_FOUND")
        problem(other.post(f"/api/cloud-accounts/{account}/import", json={"path": "a"}), 404, "NOT_FOUND")
        assert [one["id"] for one in data(other.get("/api/cost-imports"))] == [begun[1]["import_id"]]


def test_two_imports_of_one_account_run_one_after_the_other(server: Server, http: httpx.Client, account: str) -> None:
    files = [written([row(n) for n in range(count)]) for count in (30, 20)]

    begun = [begin_import(http, account, content) for content in files]
    reports = [ended(http, accepted) for accepted in begun]

    assert [report["state"] for report in reports] == ["done", "done"]
    assert sum(one[-1] for one in shown(server, account, "cost_totals_daily")) == 20


def test_what_was_replaced_is_removed(server: Server, http: httpx.Client, account: str) -> None:
    imported(http, account, written([row(0)]))
    imported(http, account, written([row(1)]))
    statement = "SELECT count(*) FROM cost_slices WHERE account_id = $1 AND state <> 'current'"

    with InProcess(beside(server)):
        wait_for(lambda: sql(server, statement, UUID(account))[0][0] == 0, "the job")

    rows = "SELECT count(*) FROM cost_rows WHERE tenant_id = (SELECT tenant_id FROM cost_accounts WHERE id = $1)"
    assert sql(server, rows, UUID(account))[0][0] == 1


def test_the_account_of_an_upload_is_found_or_registered_by_what_the_file_says(http: httpx.Client) -> None:
    number = uuid4().hex
    content = written([row(n, BillingAccountId=number if n else "1", ProviderName="Microsoft") for n in range(3)])
    upload_id = begun_upload(http, content)

    found = [data(http.post(f"/api/cost-uploads/{upload_id}/account", json={})) for _ in range(2)]

    assert [one.pop("registered") for one in found] == [True, False]
    assert found[0] == found[1]
    assert (found[0]["provider"], found[0]["identifier"]) == ("azure", number)
    assert [bill["rows"] for bill in found[0]["bills"]] == [2, 1]
    assert data(http.get(f"/api/cloud-accounts/{found[0]['account_id']}"))["identifier"] == number


def test_a_provider_that_cannot_be_registered_by_itself_is_named(http: httpx.Client) -> None:
    upload_id = begun_upload(http, written([row(ProviderName="Oracle")]))

    refusal = problem(http.post(f"/api/cost-uploads/{upload_id}/account", json={}), 400, "IMPORT_REFUSED")

    assert refusal["details"]["reason"] == "UNKNOWN_ACCOUNT"
    assert "Oracle" in refusal["detail"]


def test_the_audit_trail_has_the_hash_of_the_file(http: httpx.Client, account: str) -> None:
    report = imported(http, account, written([row()]))

    task = data(http.get(f"/api/tasks/{report['task_id']}"))

    assert [one["sha256"] for one in task["evidence"]] == [report["file_sha256"]]
    assert (task["result"]["row_count"], task["result"]["totals"]) == (1, report["totals"])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("x_Own", b"\xff\xfe"),
        ("x_Own", b'"quo"ted'),
        ("ChargeDescription", b"\xc3("),
        ("ServiceName", b"\xff"),
    ],
)
def test_a_line_that_is_no_text_is_set_aside_whichever_column_it_is_in(
    http: httpx.Client, account: str, column: str, value: bytes
) -> None:
    rows = [row(n, ChargeDescription="sold", x_Last=f"{n}") for n in range(40)]
    lines = written(rows).split(b"\n")
    lines[20] = written([rows[19] | {column: "VALUE"}]).split(b"\n")[1].replace(b"VALUE", value)

    report = imported(http, account, b"\n".join(lines))

    assert (report["state"], report["bad_count"]) == ("done", 1), report
    assert report["row_count"] == 39
    bad = data(http.get(f"/api/cost-imports/{report['id']}/bad-rows"))
    assert [one["line"] for one in bad] == [20]


class _Bills(BaseHTTPRequestHandler):
    """A host of billing exports."""

    content = b""

    def do_GET(self) -> None:
        found = self.path.startswith("/2026/focus.csv")
        self.send_response(200 if found else 404)
        self.send_header("content-length", str(len(self.content) if found else 0))
        self.end_headers()
        if found:
            self.wfile.write(self.content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        del format, args


def test_a_file_is_read_from_an_address_whose_query_is_not_shown(http: httpx.Client, account: str) -> None:
    _Bills.content = written([row(n) for n in range(3)])
    at = f"/api/cloud-accounts/{account}/import"
    with ThreadingHTTPServer(("127.0.0.1", 0), _Bills) as bills:
        threading.Thread(target=bills.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{bills.server_port}/2026/focus.csv"

        report = ended(http, data(http.post(at, json={"url": f"{place}?signature=secret"}), 202))
        missing = ended(http, data(http.post(at, json={"url": place.replace("focus", "none")}), 202))
        bills.shutdown()

    assert (report["state"], report["file_name"], report["source"]) == ("done", "focus.csv", {"url": place})
    assert sums_of(report) == totals(_Bills.content)
    assert refused(missing) == ("failed", "NO_SUCH_FILE")


def test_subscribers_are_told_that_an_import_has_ended(server: Server, http: httpx.Client, account: str) -> None:
    new = {"url": "https://hooks.example.com/costs", "events": ["import.finished"]}
    subscription = data(http.post("/api/subscriptions", json=new), 201)

    report = imported(http, account, written([row()]))

    place = f"/api/subscriptions/{subscription['id']}/deliveries"
    told = wait_for(lambda: data(http.get(place)), "the delivery")
    assert [(one["type"], one["subject"]) for one in told] == [("import.finished", report["id"])]
