"""Imports of billing data in a chaos run, and what must be shown of everything that was acknowledged."""

import base64
import hashlib
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from tests.chaos.installation import Installation
from tests.chaos.persistence import Book, Client, Taken
from tests.costs.exports import row, written

# Few enough for imports to replace each other, also at the same moment.
_PERIODS: Final = ("2026-07", "2026-08", "2026-09")
_ROWS: Final = 60
_SHOWN: Final = """
    SELECT to_char(s.period, 'YYYY-MM') AS period, count(DISTINCT s.id) AS slices, sum(s.row_count)::bigint AS told,
        sum(r.number)::bigint AS number, sum(r.billed)::text AS billed, sum(d.billed)::text AS by_service,
        sum(t.billed)::text AS in_all
    FROM cost_slices s
    CROSS JOIN LATERAL (SELECT count(*) AS number, sum(billed) AS billed FROM cost_rows r
                        WHERE r.tenant_id = s.tenant_id AND r.slice_id = s.id) r
    CROSS JOIN LATERAL (SELECT sum(billed) AS billed FROM cost_services_daily d
                        WHERE d.tenant_id = s.tenant_id AND d.slice_id = s.id) d
    CROSS JOIN LATERAL (SELECT sum(billed) AS billed FROM cost_totals_daily t
                        WHERE t.tenant_id = s.tenant_id AND t.slice_id = s.id) t
    WHERE s.state = 'current' GROUP BY 1"""


class Importer:
    """Imports files into one account, each of a period and with a total of its own."""

    def __init__(self, site: Installation, book: Book) -> None:
        self._book = book
        caller = site.caller(next(iter(site.nodes)))
        given = {"provider": "aws", "identifier": "123456789012", "name": "chaos"}
        answer = caller.rest("POST", "/api/cloud-accounts", given)
        assert answer.status_code == 201, answer.text
        self._account: str = answer.json()["data"]["id"]

    def bring(self, client: Client, name: str) -> None:
        """Upload a file and import it; some imports are asked for again although they were acknowledged."""
        period = client.chance.choice(_PERIODS)
        content = self._file(period, self._book.plan_import(name, period, _ROWS))
        new = {"file_name": f"{name}.csv", "size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        upload = client.rest("POST", "/api/cost-uploads", new, key=f"{name}-upload")["id"]
        part = {"number": 1, "content": base64.b64encode(content).decode()}
        client.rest("POST", f"/api/cost-uploads/{upload}/parts", part, key=f"{name}-part")
        for _ in range(1 + (client.chance.random() < 0.15)):
            given = {"upload_id": upload}
            accepted = client.rest("POST", f"/api/cloud-accounts/{self._account}/import", given, key=f"{name}-import")
            self._book.take(Taken(name, accepted["task_id"], "action", effect="none"))

    def _file(self, period: str, amount: Decimal) -> bytes:
        begin, end = f"{period}-01T00:00:00Z", f"{period[:5]}{int(period[5:]) + 1:02d}-01T00:00:00Z"
        dates: Mapping[str, str] = {
            "BillingPeriodStart": begin, "BillingPeriodEnd": end, "ChargePeriodStart": begin, "ChargePeriodEnd": end,
        }  # fmt: skip
        return written(row(number, BilledCost=str(amount), **dates) for number in range(_ROWS))


def complaints(site: Installation, book: Book) -> list[str]:
    """Return which periods show none of the files that were acknowledged for them, or more, or parts of one."""
    shown = {row["period"]: row for row in site.postgres.run(_SHOWN)}
    wrong: list[str] = []
    for period in _PERIODS:
        named = {name: one.total for name, one in book.imports.items() if one.period == period and name in book.taken}
        found = shown.get(period)
        if not named:
            continue
        if found is None or (found["slices"], found["told"], found["number"]) != (1, _ROWS, _ROWS):
            wrong.append(f"{period}: {found and dict(found)}, of {len(named)} files")
        elif len({Decimal(found[name]) for name in ("billed", "by_service", "in_all")}) != 1:
            wrong.append(f"{period}: rows and sums differ: {dict(found)}")
        elif Decimal(found["billed"]) not in {one.total for one in book.imports.values() if one.period == period}:
            wrong.append(f"{period}: {found['billed']} is the total of no file")
    return wrong
