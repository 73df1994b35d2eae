"""The SQL of recommendations: one row for a finding over time, decisions beside it, and the rules of a tenant."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope
from dragoman.services.audit.rows import RowGroup, RowTable
from dragoman.services.audit.statements import Statements

Record = dict[str, Any]
# One that nobody confirmed in time has lapsed, whether or not a job has been by.
_STATUS: LiteralString = """
CASE WHEN status IN ('pending', 'approved') AND executing_at IS NULL AND expires_at <= now() THEN 'expired'
     ELSE status END"""
_ROW: LiteralString = f"""
id, {_STATUS} AS status, rule, key, type, account_id, provider, service, region, sub_account, resource_id,
resource_name, title, description, currency, saving AS saving_monthly, confidence, risk, current_config,
recommended_config, facts, evidence, version, content_sha256, version_saving, first_seen_at, last_seen_at, expires_at,
decided_by, decided_at, decision_reason, attempt, executing_at, executing_by,
coalesce(task_id, executed_task) AS task_id, plan, last_error, executed_at, executed_by, outcome"""
FIND: LiteralString = f"SELECT {_ROW} FROM cost_recommendations WHERE tenant_id = $1 AND id = $2"
LOCK: LiteralString = f"{FIND} FOR UPDATE"
_FILTERS: LiteralString = f"""
tenant_id = $1 AND ($4::text IS NULL OR {_STATUS} = $4) AND ($5::text IS NULL OR type = $5)
AND ($6::text IS NULL OR rule = $6) AND ($7::uuid IS NULL OR account_id = $7) AND ($8::text IS NULL OR confidence = $8)
AND ($9::text IS NULL OR currency = $9) AND ($10::numeric IS NULL OR saving >= $10)"""
LIST_BY_SAVING: LiteralString = f"""
SELECT {_ROW} FROM cost_recommendations
WHERE {_FILTERS} AND ($3::uuid IS NULL OR (saving, id) < (
    SELECT c.saving, c.id FROM cost_recommendations c WHERE c.tenant_id = $1 AND c.id = $3))
ORDER BY saving DESC, id DESC LIMIT $2"""
LIST_NEWEST: LiteralString = f"""
SELECT {_ROW} FROM cost_recommendations WHERE {_FILTERS} AND ($3::uuid IS NULL OR id < $3) ORDER BY id DESC LIMIT $2"""
# What a new look at the evidence is held against: everything but what was executed long ago.
KNOWN: LiteralString = """
SELECT id, rule, key, status, saving, version_saving, version, content_sha256, risk, current_config, recommended_config,
    executing_at, executed_at
FROM cost_recommendations
WHERE tenant_id = $1 AND (status <> 'executed' OR executed_at > $2) FOR UPDATE"""
ADD: LiteralString = """
INSERT INTO cost_recommendations (tenant_id, id, rule, key, type, account_id, provider, service, region, sub_account,
    resource_id, resource_name, title, description, currency, saving, confidence, risk, current_config,
    recommended_config, facts, evidence, status, content_sha256, version_saving, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, 'pending',
    $23, $16, $24)
ON CONFLICT DO NOTHING"""
REFRESH: LiteralString = """
UPDATE cost_recommendations SET saving = $3, confidence = $4, facts = $5, evidence = $6, expires_at = $7,
    last_seen_at = now()
WHERE tenant_id = $1 AND id = $2"""
# Something else is recommended by now: what was decided was about the version before.
REVISE: LiteralString = """
UPDATE cost_recommendations SET title = $3, description = $4, saving = $5, confidence = $6, risk = $7,
    current_config = $8, recommended_config = $9, facts = $10, evidence = $11, content_sha256 = $12, expires_at = $13,
    version_saving = $5, version = version + 1, status = 'pending', decided_by = NULL, decided_at = NULL,
    decision_reason = NULL, plan = NULL, last_error = NULL, last_seen_at = now()
WHERE tenant_id = $1 AND id = $2"""
# $3 are the accounts whose bills were looked at; what is recommended for others stays until it lapses.
EXPIRE: LiteralString = """
UPDATE cost_recommendations r SET status = 'expired'
WHERE tenant_id = $1 AND status IN ('pending', 'approved') AND executing_at IS NULL
  AND (expires_at <= now() OR (NOT (id = ANY ($2)) AND (account_id = ANY ($3) OR NOT EXISTS (
      SELECT FROM cost_accounts a WHERE a.tenant_id = $1 AND a.id = r.account_id AND a.deleted_at IS NULL))))"""
DECIDE: LiteralString = f"""
UPDATE cost_recommendations SET status = $3, decided_by = $4, decided_at = now(), decision_reason = $5
WHERE tenant_id = $1 AND id = $2 RETURNING {_ROW}"""
ADD_DECISION: LiteralString = """
INSERT INTO cost_recommendation_decisions (tenant_id, id, recommendation_id, version, content_sha256, saving, currency,
    decision, reason, decided_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"""
SUM: LiteralString = f"""
SELECT currency, {_STATUS} AS status, count(*) AS count, sum(saving) AS saving FROM cost_recommendations
WHERE tenant_id = $1 GROUP BY currency, 2 ORDER BY currency"""
RULES: LiteralString = """
SELECT rule, enabled, thresholds, exclusions, version, updated_by, updated_at FROM cost_recommendation_rules
WHERE tenant_id = $1"""
PUT_RULE: LiteralString = """
INSERT INTO cost_recommendation_rules (tenant_id, rule, enabled, thresholds, exclusions, updated_by)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant_id, rule) DO UPDATE SET enabled = excluded.enabled, thresholds = excluded.thresholds,
    exclusions = excluded.exclusions, updated_by = excluded.updated_by, updated_at = now(),
    version = cost_recommendation_rules.version + 1
RETURNING rule, enabled, thresholds, exclusions, version, updated_by, updated_at"""

# What was decided, about which version, by whom; the audit trail is held against it.
PROMISED = RowGroup(
    ids="""
    SELECT DISTINCT recommendation_id AS id FROM cost_recommendation_decisions
    WHERE tenant_id = $1 AND recommendation_id > $2 ORDER BY 1 LIMIT $3""",
    tables=(
        RowTable(
            "cost_recommendation_decisions",
            """SELECT recommendation_id || '/' || id AS key, version, content_sha256, saving::text AS saving, currency,
                   decision, reason, decided_by
               FROM cost_recommendation_decisions WHERE tenant_id = $1 AND recommendation_id = ANY ($2)""",
        ),
    ),
)


class RecommendationStore:
    """The recommendations of a tenant."""

    def __init__(self, db: Database, statements: Statements) -> None:
        self._db = db
        self._statements = statements

    async def find(self, scope: Scope, recommendation_id: UUID, *, lock: bool = False) -> Record | None:
        """Return one recommendation."""
        row = await self._db.find(scope, LOCK if lock else FIND, scope.tenant, recommendation_id)
        return dict(row) if row else None

    async def list_page(
        self, scope: Scope, limit: int, before: UUID | None, filters: Sequence[Any], *, newest: bool
    ) -> list[Record]:
        """Return some, the largest saving or the newest first."""
        statement = LIST_NEWEST if newest else LIST_BY_SAVING
        return [dict(row) for row in await self._db.fetch(scope, statement, scope.tenant, limit, before, *filters)]

    async def lock_known(self, scope: Scope, executed_since: datetime) -> list[Record]:
        """Return what a new look is held against, and keep others from changing it meanwhile."""
        return [dict(row) for row in await self._db.fetch(scope, KNOWN, scope.tenant, executed_since)]

    async def add(self, scope: Scope, values: Sequence[Any]) -> None:
        """Add a finding that is new; one that another look has added stays as it is."""
        await self._db.execute(scope, ADD, scope.tenant, *values)

    async def refresh(self, scope: Scope, values: Sequence[Any]) -> None:
        """Keep what the newest bills say of a recommendation that is as it was."""
        await self._db.execute(scope, REFRESH, scope.tenant, *values)

    async def revise(self, scope: Scope, values: Sequence[Any]) -> None:
        """Begin another version of a recommendation."""
        await self._db.execute(scope, REVISE, scope.tenant, *values)

    async def expire_others(self, scope: Scope, kept: Sequence[UUID], looked_at: Sequence[UUID]) -> int:
        """End what the bills of these accounts confirm no longer, and what is about accounts that are gone."""
        return await self._db.execute(scope, EXPIRE, scope.tenant, list(kept), list(looked_at))

    async def decide(
        self, scope: Scope, row: Record, decision_id: UUID, *, status: str, decision: str, reason: str | None, by: str
    ) -> Record:
        """Decide about the version of a locked row, and state that in the record of the operation."""
        await self._db.execute(
            scope, ADD_DECISION, scope.tenant, decision_id, row["id"], row["version"], row["content_sha256"],
            row["saving_monthly"], row["currency"], decision, reason, by,
        )  # fmt: skip
        decided = await self._db.find(scope, DECIDE, scope.tenant, row["id"], status, by, reason)
        await self._statements.add(scope, "recommendation.decide", row["id"])
        return dict(decided) if decided else {}

    async def sum_by_status(self, scope: Scope) -> list[tuple[str, str, int, Decimal]]:
        """Return by currency and status how many there are, and what they save."""
        rows = await self._db.fetch(scope, SUM, scope.tenant)
        return [(row["currency"], row["status"], row["count"], row["saving"]) for row in rows]

    async def list_rules(self, scope: Scope) -> list[Record]:
        """Return what the tenant set of rules."""
        return [dict(row) for row in await self._db.fetch(scope, RULES, scope.tenant)]

    async def put_rule(
        self, scope: Scope, rule: str, *, enabled: bool, thresholds: Record, exclusions: Record, by: str
    ) -> Record:
        """Set a rule."""
        row = await self._db.find(scope, PUT_RULE, scope.tenant, rule, enabled, thresholds, exclusions, by)
        return dict(row) if row else {}
