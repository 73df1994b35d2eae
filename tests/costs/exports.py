"""Billing exports for tests, and what it takes to import them."""

import base64
import csv
import gzip
import hashlib
import io
from collections.abc import Iterable
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest

from tests.doors.rest.calling import data
from tests.harness import wait_for

SAMPLE: Final = Path(__file__).parents[3] / "shared" / "focus" / "focus_sample_1000.csv"
OVER: Final = frozenset({"succeeded", "failed", "rejected", "cancelled", "dead_letter"})
PART_BYTES: Final = 4_194_304
Json = dict[str, Any]


def sample() -> bytes:
    """The sample of FOCUS, which is not ours to ship."""
    if not SAMPLE.exists():
        pytest.skip(f"the FOCUS sample is not at {SAMPLE}")
    return SAMPLE.read_bytes()


def row(number: int = 0, **changed: str | None) -> dict[str, str | None]:
    """A row of an export."""
    return {
        "BilledCost": f"{number + 1}.10",
        "EffectiveCost": "1.05",
        "ListCost": "2",
        "ContractedCost": "1.5",
        "BillingAccountId": "123456789012",
        "BillingAccountName": "Acme",
        "BillingCurrency": "USD",
        "BillingPeriodStart": "2026-09-01 00:00:00",
        "BillingPeriodEnd": "2026-10-01T00:00:00Z",
        "ChargeCategory": "Usage",
        "ChargePeriodStart": f"2026-09-{number % 28 + 1:02d}T00:00:00Z",
        "ChargePeriodEnd": f"2026-09-{number % 28 + 2:02d}T00:00:00Z",
        "ServiceCategory": "Compute",
        "ServiceName": "Virtual Machines",
        "ProviderName": "AWS",
        "ResourceId": f"vm-{number}",
        "ConsumedQuantity": "24",
        "ConsumedUnit": "Hours",
        "Tags": '{"team": "blue"}' if number % 2 else None,
        "x_Own": "kept",
    } | changed


def written(rows: Iterable[dict[str, str | None]], *, delimiter: str = ",") -> bytes:
    """Rows as CSV, null as NULL."""
    listed = list(rows)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(listed[0]), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: "NULL" if value is None else value for name, value in one.items()} for one in listed)
    return out.getvalue().encode()


def packed(content: bytes) -> bytes:
    """The same with gzip."""
    return gzip.compress(content)


def totals(content: bytes) -> dict[str, dict[str, Decimal]]:
    """What the costs of a file add up to, by currency: another reader and another arithmetic than the server's."""
    sums: dict[str, dict[str, Decimal]] = {}
    columns = {"billed": "BilledCost", "effective": "EffectiveCost", "list": "ListCost", "contracted": "ContractedCost"}
    with localcontext(prec=200):
        for one in csv.DictReader(io.StringIO(content.decode())):
            kept = sums.setdefault(one["BillingCurrency"], dict.fromkeys(columns, Decimal()))
            for name, column in columns.items():
                if one[column] != "NULL":
                    kept[name] += Decimal(one[column])
    return sums


def add_account(http: httpx.Client) -> str:
    """A cloud account that no other test has."""
    account = {"provider": "aws", "identifier": str(uuid4().int)[:12], "name": "Production"}
    return data(http.post("/api/cloud-accounts", json=account), 201)["id"]


def upload(http: httpx.Client, content: bytes, name: str = "focus.csv") -> str:
    """Send a file in parts."""
    new = {"file_name": name, "size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    begun = data(http.post("/api/cost-uploads", json=new), 201)
    place = f"/api/cost-uploads/{begun['id']}"
    for number in begun["missing_parts"]:
        part = content[(number - 1) * PART_BYTES : number * PART_BYTES]
        sent = {"number": number, "content": base64.b64encode(part).decode()}
        data(http.post(f"{place}/parts", json=sent))
    return begun["id"]


def begin_import(http: httpx.Client, account: str, content: bytes, name: str = "focus.csv", **more: Any) -> Json:
    """Hand an import over."""
    given = {"upload_id": upload(http, content, name), **more}
    return data(http.post(f"/api/cloud-accounts/{account}/import", json=given), 202)


def ended(http: httpx.Client, accepted: Json) -> Json:
    """The report of an import, once its task is over."""
    place = f"/api/tasks/{accepted['task_id']}"
    wait_for(lambda: data(http.get(place))["state"] in OVER, "the end of the import")
    return data(http.get(f"/api/cost-imports/{accepted['import_id']}"))


def imported(http: httpx.Client, account: str, content: bytes, name: str = "focus.csv", **more: Any) -> Json:
    """Import a file and return the report."""
    return ended(http, begin_import(http, account, content, name, **more))


def sums_of(report: Json) -> dict[str, dict[str, Decimal]]:
    """The totals of a report in the form of `totals`."""
    names = ("billed", "effective", "list", "contracted")
    return {total["currency"]: {name: Decimal(total[name]) for name in names} for total in report["totals"]}
