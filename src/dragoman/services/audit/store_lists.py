"""The statement by which records are listed: each list goes along an index of its own."""

from collections.abc import Mapping
from typing import Any, Final, LiteralString

# Only what is asked for is in the statement: a filter that may be null cannot go along an index.
_FILTERS: Final[dict[str, LiteralString]] = {
    "operation": "r.operation = {}",
    "subject": "r.subject = {}",
    "actor": "r.subject = {}",
    "outcome": "r.outcome = {}",
    "since": "r.at >= {}",
    "until": "r.at < {}",
    # Ids sort by time: a range of them spares the records outside the wanted time, and `at` is exact.
    "after_id": "r.id > {}",
    "before_id": "r.id < {}",
}
# What may stand in either of two columns is looked for in each of them, and nothing is found twice.
_EITHER: Final[dict[str, tuple[LiteralString, LiteralString]]] = {
    "resource": ("r.resource = {0}", "r.about = {0} AND r.resource IS DISTINCT FROM {0}"),
    "action": ("r.operation = {0}", "r.action = {0} AND r.operation <> {0}"),
}
_PLACES: Final[tuple[LiteralString, ...]] = ("$3", "$4", "$5", "$6", "$7", "$8", "$9", "$10", "$11", "$12")
_FOUND: LiteralString = """
SELECT r.id, r.at, r.operation, r.outcome, r.subject, r.body FROM audit_records r WHERE r.tenant_id = $1"""
_NEWEST: LiteralString = " ORDER BY id DESC LIMIT $2"
# What was done is nearly everything: saying that it is not asked for lets PostgreSQL use the index of the rest.
_NOT_DONE: LiteralString = " AND r.outcome <> 'done'"


def list_statement(filters: Mapping[str, Any]) -> LiteralString:
    """Return the statement for these filters, newest first; its parameters are their values, from $3 on."""
    branches: list[LiteralString] = [_FOUND]
    for name, place in zip(filters, _PLACES, strict=False):
        pieces = _EITHER.get(name) or (_FILTERS[name],)
        branches = [branch + " AND " + piece.format(place) for branch in branches for piece in pieces]
    if filters.get("outcome") not in (None, "done"):
        branches = [branch + _NOT_DONE for branch in branches]
    found: LiteralString = " UNION ALL ".join("(" + branch + _NEWEST + ")" for branch in branches)
    return (
        "SELECT r.*, (SELECT l.seq FROM audit_links l WHERE l.tenant_id = $1 AND l.record_id = r.id) AS seq FROM ("
        + found
        + ") r"
        + _NEWEST
    )
