"""The SQL with which DuckDB reads a billing export: what is wrong with its rows, their sums, and how they are kept.

Values stay text on their way from the file to PostgreSQL. Sums are made of DECIMAL(38, 20), which is exact for every
value with up to 20 decimals; where a file has finer ones, PostgreSQL sums the rows.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any, Final

from duckdb import DuckDBPyConnection, OutOfRangeException

from dragoman_costs.imports.fields import TEXTS, Fields
from dragoman_costs.imports.focus import AMOUNTS, KEPT
from dragoman_costs.slices.layout import DELIMITER, NULL, QUOTE, ROLL_UPS

Record = dict[str, Any]
_CSV: Final = f"FORMAT CSV, HEADER false, DELIMITER '{DELIMITER}', QUOTE '{QUOTE}', ESCAPE '{QUOTE}', NULLSTR '{NULL}'"
_FILE_BYTES: Final = 64_000_000
_LONGEST_TAG: Final = 256
_FIRST_ROWS: Final = 2_000
# These are long or in no sum.
_NOT_SUMMED: Final = frozenset({"charge_description", "commitment_id", "commitment_status"})
_SUMS: Final = "sum(billed), sum(effective), sum(list), sum(contracted)"
_ROLL_UPS: Final = {
    "cost_services_daily": f"""
        SELECT period, day, provider, service, charge_category, currency, {_SUMS},
            coalesce(sum(effective) FILTER (WHERE tags = '{{}}'), 0), count(*)
        FROM readable GROUP BY ALL""",
    "cost_daily": f"""
        SELECT period, day, provider, service, service_category, region, sub_account, sub_account_name,
            charge_category, pricing_category, currency, {_SUMS}, count(*)
        FROM readable GROUP BY ALL""",
    "cost_tags_daily": """
        WITH sets AS (
            SELECT period, day, tags, provider, service, charge_category, currency, sum(billed) AS billed,
                sum(effective) AS effective, sum(list) AS list, sum(contracted) AS contracted, count(*) AS row_count
            FROM readable WHERE tags <> '{}' GROUP BY ALL)
        SELECT period, day, tag.key, coalesce(tag.atom ->> '$', ''), provider, service, charge_category, currency,
            sum(billed), sum(effective), sum(list), sum(contracted), sum(row_count)
        FROM sets, json_each(sets.tags) tag GROUP BY ALL""",
    "cost_resources_daily": f"""
        SELECT period, day, resource_id, max(resource_name), resource_type, provider, service, region, sub_account,
            charge_category, pricing_category, unit, currency, {_SUMS}, sum(quantity), count(*)
        FROM readable WHERE resource_id <> '' GROUP BY ALL""",
}


class Export:
    """One billing export. `scan` is a table expression of DuckDB: the rows as text, with their `line`.

    `survey` comes first; what it finds is kept in the database, so that another process can write the rows.
    """

    def __init__(self, db: DuckDBPyConnection, scan: str, columns: Sequence[str]) -> None:
        self._db = db
        self._fields = Fields(columns)
        self._scan = scan

    def survey(self, *, rejects: bool) -> None:
        """Look at every row: what is wrong with it, and what it adds to which sum.

        With `rejects` the scan sets lines aside that are no rows at all.

        Raises:
            duckdb.Error: the file cannot be read.
        """
        with ThreadPoolExecutor(1) as beside:
            constants = beside.submit(self._find_constants, self._db.cursor())
            self._look_at_rows()
            self._keep_constants(constants.result())
        self._db.execute("CREATE TABLE broken (line INTEGER, reason VARCHAR, value VARCHAR)")
        self._db.execute("CREATE TABLE shifts (since INTEGER, places INTEGER)")
        if rejects:
            self._keep_rejects()
        self._find_odd_tags()
        self._db.execute("CREATE TEMP VIEW readable AS SELECT * FROM surveyed WHERE code = 0")

    def _look_at_rows(self) -> None:
        fields = self._fields
        texts = ", ".join(f"{fields.text(name)} AS {own}" for own, name in TEXTS.items() if own not in _NOT_SUMMED)
        self._db.execute(f"""
            CREATE TEMP TABLE surveyed AS SELECT line, {fields.code} AS code, {fields.value} AS value,
                {fields.inexact} AS inexact, billing_period_start::DATE AS period, charge_period_start::DATE AS day,
                {fields.provider} AS provider, {texts}, {fields.unit} AS unit,
                {fields.get("BillingCurrency")} AS currency, coalesce({fields.get("Tags")}, '{{}}') AS tags,
                {", ".join(AMOUNTS)}, quantity
            FROM (SELECT *, {fields.parsed} FROM {self._scan})""")

    def list_periods(self) -> list[tuple[date, int]]:
        """Return the billing periods with the number of their rows, oldest first."""
        return self._db.execute("SELECT period, count(*) FROM readable GROUP BY ALL ORDER BY ALL").fetchall()

    def list_accounts(self, most: int) -> list[tuple[str, str, int]]:
        """Return providers and billing accounts with the number of their rows, the greatest first."""
        account = self._fields.get("BillingAccountId")
        return self._db.execute(
            f"SELECT {self._fields.provider}, {account}, count(*) FROM {self._scan} GROUP BY ALL ORDER BY 3 DESC, 1, 2 "
            f"LIMIT {most:d}"
        ).fetchall()

    def count(self) -> int:
        """Return how many rows there are, good and bad ones."""
        return self._number("SELECT count(*) FROM surveyed") + self._number("SELECT count(*) FROM broken")

    def list_bad(self, most: int) -> tuple[int, list[Record]]:
        """Return how many rows cannot be read, and the first of them with their reasons."""
        problems = self._fields.problems
        count = self._number("SELECT count(*) FROM surveyed WHERE code <> 0")
        found = self._db.execute(
            f"SELECT line, code, value FROM surveyed WHERE code <> 0 ORDER BY line LIMIT {most:d}"
        ).fetchall()
        bad: list[Record] = [
            {"line": line, "column": problems[code - 1].column, "reason": problems[code - 1].reason, "value": value}
            for line, code, value in found
        ]
        count += self._number("SELECT count(*) FROM broken")
        broken = self._db.execute(f"SELECT line, reason, value FROM broken ORDER BY line LIMIT {most:d}").fetchall()
        bad += [{"line": line, "column": "", "reason": reason, "value": value} for line, reason, value in broken]
        return count, sorted(bad, key=lambda row: row["line"])[:most]

    def roll_up(self) -> bool:
        """Sum the rows that can be read; return whether the sums are exact."""
        if self._number("SELECT count(*) FROM readable WHERE inexact"):
            return False
        try:
            for name, query in _ROLL_UPS.items():
                self._db.execute(f"CREATE TABLE roll_up_{name} AS {query}")
        except OutOfRangeException:
            return False
        return True

    def list_constants(self) -> dict[str, str]:
        """Return the columns without a place of their own that have one value in all rows."""
        return dict(self._db.execute("SELECT name, value FROM constants WHERE value IS NOT NULL").fetchall())

    def write_rows(self, periods: Sequence[date], directory: Path) -> None:
        """Write the rows of these periods as files that PostgreSQL reads."""
        fields = self._fields
        absent = [name for (name,) in self._db.execute("SELECT name FROM constants WHERE absent").fetchall()]
        texts = ", ".join(f"{fields.text(name)} AS {own}" for own, name in TEXTS.items())
        amounts = ", ".join(f"trim({fields.amount(name)})" for name in AMOUNTS.values())
        tags = fields.get("Tags")
        odd = "false"
        if self._number("SELECT count(*) FROM odd_tags"):
            odd = f"coalesce({tags} IN (SELECT tags FROM odd_tags), false)"
        line, scan = "line", self._scan
        if self._number("SELECT count(*) FROM shifts"):
            line, scan = (
                "line + coalesce(places, 0)",
                f"{self._scan} rows ASOF LEFT JOIN shifts ON rows.line >= shifts.since",
            )
        self._db.execute(f"""
            COPY (
                SELECT billing_period_start::DATE, {line}, charge_period_start, charge_period_end, {amounts},
                    {fields.get("BillingCurrency")}, {fields.provider}, {texts}, trim({fields.quantity}), {fields.unit},
                    CASE WHEN odd THEN '{{}}' ELSE coalesce({tags}, '{{}}') END,
                    {fields.remainder(self.list_constants(), absent)}
                FROM (SELECT *, {fields.parsed}, {odd} AS odd FROM {scan})
                WHERE {fields.code} = 0 AND billing_period_start::DATE IN ({_dates(periods)})
            ) TO '{directory}' ({_CSV}, FILE_SIZE_BYTES {_FILE_BYTES})""")

    def write_roll_ups(self, periods: Sequence[date], directory: Path) -> None:
        """Write the sums of these periods as files that PostgreSQL reads."""
        for name in ROLL_UPS:
            query = f"SELECT * FROM roll_up_{name} WHERE period IN ({_dates(periods)})"
            self._db.execute(f"COPY ({query}) TO '{directory / name}.csv' ({_CSV})")

    def _keep_rejects(self) -> None:
        """Keep what the reader set aside; the lines after it have other numbers than the reader gave them."""
        self._db.execute("""
            INSERT INTO broken SELECT (line - 1)::INTEGER, any_value(error_message), any_value(csv_line)[:200]
            FROM reject_errors GROUP BY line""")
        self._db.execute("""
            INSERT INTO shifts SELECT since, max(places) FROM (
                SELECT line - places + 1 AS since, places
                FROM (SELECT line, row_number() OVER (ORDER BY line) AS places FROM broken)) GROUP BY since""")
        self._db.execute("""
            UPDATE surveyed SET line = line + (SELECT coalesce(max(places), 0) FROM shifts WHERE since <= surveyed.line)
            WHERE (SELECT count(*) FROM shifts) > 0""")

    def _find_odd_tags(self) -> None:
        """Find tags that are not a flat object: these are kept as they were written, and in no sum by tag."""
        self._db.execute("CREATE TEMP TABLE tag_sets AS SELECT DISTINCT tags FROM surveyed")
        self._db.execute("""
            CREATE TABLE odd_tags AS SELECT tags FROM tag_sets
            WHERE NOT json_valid(tags) OR contains(tags, '\\u0000') OR ltrim(tags)[1] <> '{'""")
        self._db.execute("DELETE FROM tag_sets WHERE tags IN (SELECT tags FROM odd_tags)")
        self._db.execute(f"""
            INSERT INTO odd_tags SELECT DISTINCT sets.tags FROM tag_sets sets, json_each(sets.tags) tag
            WHERE tag.type NOT IN ('VARCHAR', 'BOOLEAN', 'NULL', 'UBIGINT', 'BIGINT')
                OR length(tag.key) > {_LONGEST_TAG}
            UNION
            SELECT tags FROM tag_sets WHERE len(json_keys(tags)) <> len(list_distinct(json_keys(tags)))""")
        self._db.execute(
            "INSERT INTO odd_tags SELECT tags FROM tag_sets WHERE tags <> '{}' AND len(json_keys(tags)) = 0"
        )
        self._db.execute("UPDATE surveyed SET tags = '{}' WHERE tags IN (SELECT tags FROM odd_tags)")

    def _find_constants(self, db: DuckDBPyConnection) -> list[tuple[str, str | None, bool]]:
        """Find the columns that need not be kept with every row: the same in the first rows, and in all others."""
        names = [name for name in self._fields.columns if name not in KEPT]
        if not names:
            return []
        columns = [self._fields.get(name) for name in names]
        ends = ", ".join(f"min({one}), max({one}), count({one})" for one in columns)
        first: tuple[Any, ...] = db.execute(
            f"SELECT count(*), {ends} FROM (SELECT * FROM {self._scan} LIMIT {_FIRST_ROWS})"
        ).fetchone() or (0,)  # fmt: skip
        found = zip(names, columns, first[1::3], first[2::3], first[3::3], strict=True)
        alike: list[tuple[str, str, str | None]] = [
            (name, column, low) for name, column, low, high, count in found if low == high and count in (0, first[0])
        ]
        if not alike:
            return []
        others = ", ".join(f"count_if({column} IS DISTINCT FROM ?::VARCHAR)" for _, column, _ in alike)
        row = db.execute(f"SELECT {others} FROM {self._scan}", [value for _, _, value in alike]).fetchone() or ()
        return [(name, value, value is None) for (name, _, value), other in zip(alike, row, strict=True) if not other]

    def _keep_constants(self, constants: list[tuple[str, str | None, bool]]) -> None:
        self._db.execute("CREATE TABLE constants (name VARCHAR, value VARCHAR, absent BOOLEAN)")
        if constants:
            self._db.executemany("INSERT INTO constants VALUES (?, ?, ?)", constants)

    def _number(self, query: str) -> int:
        row = self._db.execute(query).fetchone()
        return int(row[0]) if row else 0


def _dates(periods: Sequence[date]) -> str:
    return ", ".join(f"DATE '{period.isoformat()}'" for period in periods)
