"""Turns findings into recommendations: a finding stays one recommendation for as long as nothing is done about it."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

from dragoman.blocking import Threads
from dragoman.infra.db import Database, Scope
from dragoman_costs.recommendations.analysis import analyse
from dragoman_costs.recommendations.evidence import PoolUse, ResourceUse
from dragoman_costs.recommendations.findings import Finding
from dragoman_costs.recommendations.settings import RuleBook
from dragoman_costs.recommendations.store import RecommendationStore, Record
from dragoman_costs.recommendations.store_evidence import EvidenceStore

WINDOW_DAYS: Final = 30
# A finding that no newer bill confirms lapses so long after the last day that it rests on.
_HOLDS_DAYS: Final = 45
_MOST_ROWS: Final = 31
# A saving that moved by more than this is another one; so is a recommended number.
_MOVED: Final = Decimal("0.2")
_DISMISSED_GREW: Final = Decimal("1.25")


class Generator:
    """Looks at the evidence of a tenant, and brings its recommendations up to date."""

    def __init__(
        self, store: RecommendationStore, evidence: EvidenceStore, rules: RuleBook, db: Database, *,
        new_id: Callable[[], UUID], now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:  # fmt: skip
        self._store = store
        self._evidence = evidence
        self._rules = rules
        self._db = db
        self._new_id = new_id
        self._now = now
        self._threads = Threads("recommendations", 2, share=1)

    async def generate(self, scope: Scope) -> int:
        """Bring the recommendations of a tenant up to date, and return how many findings there are. Safe to repeat."""
        settings = await self._rules.read(scope)
        resources: list[ResourceUse] = []
        pools: list[PoolUse] = []
        looked_at: list[UUID] = []
        for account_id, newest in (await self._evidence.list_newest_days(scope)).items():
            if self._expiry(newest) > self._now():
                looked_at.append(account_id)
                first = newest - timedelta(days=WINDOW_DAYS - 1)
                least = Decimal(str(min(one.options.min_saving for one in settings.values())))
                resources += await self._evidence.list_resources(scope, account_id, first, newest, least=least)
                pools += await self._evidence.list_pools(scope, account_id, first, newest)
        findings = await self._threads.run(scope.tenant, analyse, resources, pools, settings)
        async with self._db.unit(scope):
            await self._keep(scope, findings, looked_at)
        return len(findings)

    async def _keep(self, scope: Scope, findings: Sequence[Finding], looked_at: Sequence[UUID]) -> None:
        # What was executed is still in the bills of the days before.
        known_rows = await self._store.lock_known(scope, self._now() - timedelta(days=WINDOW_DAYS))
        known: dict[tuple[str, str], Record] = {}
        for row in known_rows:
            current = known.get((row["rule"], row["key"]))
            if current is None or row["status"] == "executed":
                known[row["rule"], row["key"]] = row
        kept: list[UUID] = []
        for finding in findings:
            row = known.get((finding.rule, finding.key))
            if row is None:
                recommendation_id = self._new_id()
                await self._store.add(scope, [recommendation_id, *self._columns(finding)])
                kept.append(recommendation_id)
                continue
            kept.append(row["id"])
            if row["status"] == "executed" or row["executing_at"] is not None:
                continue
            if (_changed(row, finding) if row["status"] != "dismissed" else _returns(row, finding)) or row[
                "status"
            ] == "expired":
                await self._store.revise(scope, [row["id"], *self._revision(finding)])
            else:
                expiry = self._expiry(finding.lines[-1].day)
                values = (finding.saving, finding.confidence, finding.facts, _evidence(finding), expiry)
                await self._store.refresh(scope, [row["id"], *values])
        await self._store.expire_others(scope, kept, looked_at)

    def _columns(self, finding: Finding) -> list[Any]:
        return [
            finding.rule, finding.key, finding.kind, finding.account_id, finding.provider, finding.service,
            finding.region, finding.sub_account, finding.resource_id, finding.resource_name, finding.title,
            finding.description, finding.currency, finding.saving, finding.confidence, finding.risk, finding.current,
            finding.recommended, finding.facts, _evidence(finding), finding.content_sha256,
            self._expiry(finding.lines[-1].day),
        ]  # fmt: skip

    def _revision(self, finding: Finding) -> list[Any]:
        return [
            finding.title, finding.description, finding.saving, finding.confidence, finding.risk, finding.current,
            finding.recommended, finding.facts, _evidence(finding), finding.content_sha256,
            self._expiry(finding.lines[-1].day),
        ]  # fmt: skip

    def _expiry(self, newest: date) -> datetime:
        return datetime.combine(newest + timedelta(days=_HOLDS_DAYS), time(), UTC)


def _evidence(finding: Finding) -> dict[str, Any]:
    days = sorted(finding.lines, key=lambda line: line.day)
    rows = [
        {
            "slice_id": str(one.slice_id),
            "line": one.line or None,
            "day": one.day.isoformat(),
            "amount": f"{one.amount:f}",
        }
        for one in days[-_MOST_ROWS:]
    ]
    return {
        "first_day": days[0].day.isoformat(), "last_day": days[-1].day.isoformat(), "days": len(days), "rows": rows,
    }  # fmt: skip


def _changed(row: Record, finding: Finding) -> bool:
    """Check whether a finding is another one than what was recommended: what is done, at which risk, for how much."""
    return (
        row["risk"] != finding.risk
        or not _alike(row["current_config"], finding.current)
        or not _alike(row["recommended_config"], finding.recommended)
        or abs(finding.saving - row["version_saving"]) > row["version_saving"] * _MOVED
    )


def _returns(row: Record, finding: Finding) -> bool:
    """Check whether a dismissed finding has changed so much that it is worth asking again."""
    grew = finding.saving >= row["version_saving"] * _DISMISSED_GREW
    return grew or not _alike(row["recommended_config"], finding.recommended)


def _alike(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Check whether two configurations say the same, but for numbers that have moved a little."""
    return before.keys() == after.keys() and all(_same(before[name], after[name]) for name in before)


def _same(before: Any, after: Any) -> bool:
    if before == after or isinstance(before, bool) or isinstance(after, bool):
        return bool(before == after)
    try:
        old, new = Decimal(str(before)), Decimal(str(after))
    except InvalidOperation:
        return False
    return abs(new - old) <= abs(old) * _MOVED
