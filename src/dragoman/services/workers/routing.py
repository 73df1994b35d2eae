"""Routing: which worker performs an action for a tenant, computed from declared capabilities and rules."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dragoman.services.tasks.actions.ports import Route
from dragoman.services.workers.protocol import Capability, Worker
from dragoman.services.workers.store import Rule


@dataclass(frozen=True, slots=True)
class WorkerCapability:
    """One action of one worker for a tenant; `performs` when the next task for the action goes to this worker."""

    worker: Worker
    capability: Capability
    allowed: bool
    preferred: bool = False
    performs: bool = False
    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """All capabilities for a tenant, and the route of each action."""

    entries: tuple[WorkerCapability, ...]
    routes: Mapping[str, Route]


def tabulate(built_in: Sequence[Worker], remote: Sequence[tuple[Worker, bool]], rules: Iterable[Rule]) -> Table:
    """Return the table of a tenant; each remote worker comes with whether it is enabled.

    A worker of this server may perform its actions unless they were denied, a remote worker only those that were
    allowed. Among several allowed workers the preferred one performs; else one of this server; else the first by name.
    """
    decisions = {(rule.action, rule.worker): rule for rule in rules}
    own = {capability.action: capability for worker in built_in for capability in worker.capabilities}
    entries = [
        _entry(worker, capability, decisions, by_default=True)
        for worker in built_in
        for capability in worker.capabilities
    ]
    for worker, enabled in sorted(remote, key=lambda pair: pair[0].name):
        for capability in worker.capabilities:
            entry = _entry(worker, _as_strict(capability, own.get(capability.action)), decisions, by_default=False)
            entries.append(replace(entry, allowed=entry.allowed and enabled))
    chosen: dict[str, WorkerCapability] = {}
    for entry in entries:
        best = chosen.get(entry.capability.action)
        if entry.allowed and (best is None or (entry.preferred and not best.preferred)):
            chosen[entry.capability.action] = entry
    routed = tuple(replace(entry, performs=chosen.get(entry.capability.action) is entry) for entry in entries)
    routes = {
        action: Route(entry.worker, entry.capability, shared=any(entry.worker is worker for worker in built_in))
        for action, entry in chosen.items()
    }
    return Table(routed, routes)


def _entry(
    worker: Worker, capability: Capability, decisions: Mapping[tuple[str, str], Rule], *, by_default: bool
) -> WorkerCapability:
    rule = decisions.get((capability.action, worker.name))
    if rule is None:
        return WorkerCapability(worker, capability, by_default)
    return WorkerCapability(worker, capability, rule.allowed, rule.preferred, rule=rule)


def _as_strict(declared: Capability, own: Capability | None) -> Capability:
    """Return the capability at least as sensitive as the same action is in this server."""
    if own is None:
        return declared
    return replace(
        declared,
        sensitive=declared.sensitive or own.sensitive,
        sensitive_when=own.sensitive_when,
        approvers=own.approvers,
        required=own.required,
    )
