"""The one query by which tasks are listed: who sees what, what is asked for, where a page begins, and in which order.

Every list of tasks is made here, so that the rule of what a caller may see is written once. Each goes along an index.
"""

from collections.abc import Iterator
from typing import Any, Final, LiteralString

from dragoman.services.tasks.access import Visible
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Order, TaskQuery

# Counting goes on to here: a tenant with millions of tasks would pay for all of them.
MOST_COUNTED: Final = 10_000
# The join is left out by PostgreSQL where nothing of the delegation is asked for: it finds one row at the most.
_TASKS: LiteralString = """
FROM tasks t LEFT JOIN delegations d ON d.tenant_id = t.tenant_id AND d.task_id = t.id
WHERE t.tenant_id = $1"""
_ORDERS: Final[dict[Order, LiteralString]] = {
    Order.CREATED: " ORDER BY t.id DESC LIMIT $2",
    Order.CHANGED: " ORDER BY t.status_at DESC, t.id DESC LIMIT $2",
}
# What succeeded is nearly everything: saying that it is not asked for lets PostgreSQL use the index of the others.
_NOT_DONE: LiteralString = " AND t.state <> 'succeeded'"
_PLACES: Final[tuple[LiteralString, ...]] = (
    "$3", "$4", "$5", "$6", "$7", "$8", "$9", "$10", "$11", "$12", "$13", "$14", "$15",
)  # fmt: skip
# A condition and its values. Only what is asked for is in the statement: a condition that may be null cannot go along
# an index.
_Condition = tuple[LiteralString, tuple[Any, ...]]


def list_statement(query: TaskQuery, visible: Visible, *, columns: LiteralString) -> tuple[LiteralString, list[Any]]:
    """Return the statement of a page and its parameters from $2 on; it gives one row more than the limit."""
    where, values = _where([*_filters(query), *_visible(visible), *_after(query)])
    return "SELECT " + columns + _TASKS + where + _done(query) + _ORDERS[query.order], [query.limit + 1, *values]


def count_statement(query: TaskQuery, visible: Visible) -> tuple[LiteralString, list[Any]]:
    """Return the statement that counts the tasks of all pages, up to `MOST_COUNTED`, and its parameters from $2 on."""
    where, values = _where([*_filters(query), *_visible(visible)])
    statement = "SELECT count(*) AS n FROM (SELECT " + _TASKS + where + _done(query) + " LIMIT $2) AS listed"
    return statement, [MOST_COUNTED, *values]


def _visible(visible: Visible) -> Iterator[_Condition]:
    """Yield the condition of the tasks that a caller may see."""
    if visible.owner is None:
        return
    if visible.actions:
        yield "(d.task_id IS NOT NULL OR t.owner = {})", (visible.owner,)
    else:
        yield "t.owner = {}", (visible.owner,)


def _filters(query: TaskQuery) -> Iterator[_Condition]:
    # Who acts is who asked: an envelope whose actor is another than its sender is refused.
    plain: tuple[tuple[LiteralString, Any], ...] = (
        ("t.context_id = {}", query.context_id),
        ("d.action = {}", query.action),
        ("d.matter = {}", query.matter),
        ("t.owner = {}", query.actor),
        ("d.correlation_id = {}", query.correlation_id),
        ("t.error_code = {}", query.error),
        ("coalesce(t.slot ? 'auth', false) = {}", query.auth),
        ("t.status_at >= {}", query.changed_since),
        ("t.created_at >= {}", query.created_since),
    )
    for condition, value in plain:
        if value is not None:
            yield condition, (value,)
    if query.states is not None:
        states = [state.value for state in query.states]
        yield ("t.state = {}", (states[0],)) if len(states) == 1 else ("t.state = ANY({}::text[])", (states,))


def _after(query: TaskQuery) -> Iterator[_Condition]:
    """Yield the condition of what comes after the last task of the page before."""
    if query.after is None:
        return
    if query.order is Order.CREATED:
        yield "t.id < {}", (query.after.id,)
    else:
        yield "(t.status_at, t.id) < ({}, {})", (query.after.changed_at, query.after.id)


def _where(conditions: list[_Condition]) -> tuple[LiteralString, list[Any]]:
    where: LiteralString = ""
    values: list[Any] = []
    for condition, parameters in conditions:
        places = _PLACES[len(values) : len(values) + len(parameters)]
        where += " AND " + condition.format(*places)
        values += parameters
    return where, values


def _done(query: TaskQuery) -> LiteralString:
    return _NOT_DONE if query.states is not None and State.SUCCEEDED not in query.states else ""
