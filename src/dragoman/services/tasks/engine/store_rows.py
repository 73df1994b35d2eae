"""What the rows of tasks promise; the audit trail is held against it."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from dragoman.services.audit.models import Detail
from dragoman.services.audit.rows import Columns, RowGroup, RowTable, hashed, stated
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Json

# How far a turn is while it is worked on, no record says: it is `open`. An action is stated with every step.
OPEN = "open"
PROMISED = RowGroup(
    # Tasks of direct reads have no record. One that has, and is made to look like them, is missing.
    ids="""SELECT id FROM tasks WHERE tenant_id = $1 AND id > $2 AND caller->'recorded' IS DISTINCT FROM 'false'::jsonb
           ORDER BY id LIMIT $3""",
    tables=(
        RowTable(
            "tasks",
            """SELECT id AS key, owner, caller, history, artifacts,
                      CASE WHEN state IN ('queued', 'in_progress') AND NOT EXISTS (
                          SELECT FROM delegations d WHERE d.tenant_id = t.tenant_id AND d.task_id = t.id
                      ) THEN 'open' ELSE state END AS state
               FROM tasks t
               WHERE tenant_id = $1 AND id = ANY ($2) AND caller->'recorded' IS DISTINCT FROM 'false'::jsonb""",
            since=4,
        ),
        RowTable(
            "delegations",
            """SELECT task_id AS key, canonical_id, run, actor, action, matter, governance, envelope
               FROM delegations WHERE tenant_id = $1 AND task_id = ANY ($2)""",
        ),
        RowTable(
            "effects",
            """SELECT canonical_id || '/' || step || '/' || encode(digest, 'hex') AS key, outcome
               FROM effects WHERE tenant_id = $1 AND canonical_id = ANY ($2)""",
            complete=False,
        ),
    ),
    # What a turn said last is kept beside its history, and shown first.
    broken="""
SELECT 'tasks', t.id::text, 'message',
       'sha256:' || encode(sha256(convert_to((t.history->-1)::text, 'UTF8')), 'hex'),
       'sha256:' || encode(sha256(convert_to(t.message::text, 'UTF8')), 'hex')
FROM tasks t
WHERE t.tenant_id = $1 AND t.id = ANY ($2) AND t.message <> t.history->-1
  AND t.caller->'recorded' IS DISTINCT FROM 'false'::jsonb
  AND NOT EXISTS (SELECT FROM delegations d WHERE d.tenant_id = t.tenant_id AND d.task_id = t.id)""",
)


def task_columns(state: str, *, owner: str | None = None, artifacts: Sequence[Json] | None = None) -> Columns:
    """Return the columns of a task that are written with a step."""
    columns: Columns = {"state": state}
    if owner is not None:
        columns["owner"] = stated(owner)
    if artifacts is not None:
        columns["artifacts"] = hashed(list(artifacts))
    return columns


def turn_columns(
    state: State, history: Sequence[Json], *, caller: Json | None = None, artifacts: Sequence[Json] | None = None
) -> Columns:
    """Return the columns of a conversation's task that a message, or the answer to it, leaves."""
    columns = task_columns(OPEN if state in (State.QUEUED, State.IN_PROGRESS) else state, artifacts=artifacts)
    columns["history"] = hashed(list(history))
    if caller is not None:
        columns["caller"] = hashed(caller)
    return columns


def delegation_columns(
    *, canonical: UUID, run: int, actor: str, action: str, matter: str, governance: Json, envelope: Json
) -> Columns:
    """Return the columns of a new run of an action."""
    return {
        "canonical_id": str(canonical),
        "run": run,
        "actor": stated(actor),
        "action": stated(action),
        "matter": stated(matter),
        "governance": hashed(governance),
        "envelope": hashed(envelope),
    }


def governance_details(governance: Json) -> dict[str, Detail]:
    """Return under which policies and approvals an action is done, for people to read."""
    details: dict[str, Detail] = {}
    if policies := governance.get("policies"):
        details["policies"] = [f"{one['id']}@{one['version']}" for one in policies]
    if approvals := governance.get("approvals"):
        details["approvals"] = [str(one["id"]) for one in approvals]
        details["approved_digest"] = str(governance["digest"])
    return details


def effect_rows(canonical: UUID, settled: Mapping[tuple[str, str], str]) -> dict[str, Columns]:
    """Return the effects whose outcome an attempt knows: by step and digest, the hash of the outcome."""
    return {f"effects/{canonical}/{step}/{digest}": {"outcome": outcome} for (step, digest), outcome in settled.items()}
