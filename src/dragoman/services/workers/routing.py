"""Who performs what for a tenant: pure, from what there is and what was decided."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dragoman.services.tasks.actions.ports import Route
from dragoman.services.workers.protocol import Capability, Worker
from dragoman.services.workers.store import Rule


@dataclass(frozen=True, slots=True)
class Offer:
    """One action of one worker, and how it stands; `performs` when the next task for the action goes there."""

    worker: Worker
    capability: Capability
    allowed: bool
    preferred: bool = False
    performs: bool = False
    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """All offers of a tenant, and the one of each action that is taken."""

    offers: tuple[Offer, ...]
    routes: Mapping[str, Route]


def tabulate(built_in: Sequence[Worker], remote: Sequence[tuple[Worker, bool]], rules: Iterable[Rule]) -> Table:
    """Put it together. The remote workers come with whether they are enabled.

    What is part of the server may be done unless it was denied; what is not may be done only if it was allowed. Among
    several that may, the preferred one performs; else one that is part of the server; else the first by name.
    """
    decided = {(rule.action, rule.worker): rule for rule in rules}
    own = {capability.action: capability for worker in built_in for capability in worker.capabilities}
    offers = [
        _offer(worker, capability, decided, by_default=True)
        for worker in built_in
        for capability in worker.capabilities
    ]
    for worker, enabled in sorted(remote, key=lambda one: one[0].name):
        for capability in worker.capabilities:
            offer = _offer(worker, _as_strict(capability, own.get(capability.action)), decided, by_default=False)
            offers.append(replace(offer, allowed=offer.allowed and enabled))
    chosen: dict[str, Offer] = {}
    for offer in offers:
        held = chosen.get(offer.capability.action)
        if offer.allowed and (held is None or (offer.preferred and not held.preferred)):
            chosen[offer.capability.action] = offer
    shown = tuple(replace(offer, performs=chosen.get(offer.capability.action) is offer) for offer in offers)
    return Table(shown, {action: Route(offer.worker, offer.capability) for action, offer in chosen.items()})


def _offer(
    worker: Worker, capability: Capability, decided: Mapping[tuple[str, str], Rule], *, by_default: bool
) -> Offer:
    rule = decided.get((capability.action, worker.name))
    if rule is None:
        return Offer(worker, capability, by_default)
    return Offer(worker, capability, rule.allowed, rule.preferred, rule=rule)


def _as_strict(declared: Capability, own: Capability | None) -> Capability:
    """What a remote worker says of an action of ours: it cannot make it less sensitive than it is here."""
    if own is None:
        return declared
    return replace(declared, sensitive=declared.sensitive or own.sensitive, required=own.required)
