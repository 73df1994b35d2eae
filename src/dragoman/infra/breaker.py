"""Circuit breakers: an upstream that keeps failing is left alone for a while, and its callers are told at once.

closed ──(threshold failures in a row)──> open ──(cooldown)──> half-open ──(one trial)──> closed | open
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Any, Final, Literal, Self
from uuid import UUID

import httpx
import structlog

from dragoman.errors import UpstreamUnavailable
from dragoman.infra.telemetry.metrics import Metrics

State = Literal["closed", "half-open", "open"]
Failures = tuple[type[Exception], ...]

# Of one tenant, or of the operator.
MOST_OF_TENANT: Final = 100
_SEVERITY: Final[dict[str, int]] = {"closed": 0, "half-open": 1, "open": 2}
NETWORK_FAILURES: Final[Failures] = (OSError, httpx.TransportError)


class _Circuit:
    """The state of one upstream. `epoch` tells a verdict on the present from one on the past."""

    __slots__ = ("epoch", "failures", "opened_at", "state")

    def __init__(self) -> None:
        self.state: State = "closed"
        self.failures = 0
        self.opened_at = 0.0
        self.epoch = 0


@dataclass(frozen=True, slots=True)
class _Place:
    """Who fails: a kind of upstream, and where there are many of the kind, which one, and whose."""

    upstream: str
    host: str
    tenant: UUID | None


class Breakers:
    """The breakers of this process, in its memory. Only upstreams that fail at present have one.

    Those of a tenant's own upstreams are the tenant's: no tenant can open the breaker of another, and one whose
    upstreams fail by the hundred loses its own oldest breakers.
    """

    def __init__(
        self,
        threshold: int = 5,
        cooldown_s: float = 5.0,
        *,
        metrics: Metrics,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._threshold = threshold
        self._cooldown_s = cooldown_s
        self._metrics = metrics
        self._clock = clock
        self._circuits: dict[UUID | None, dict[_Place, _Circuit]] = {}
        self._own: dict[str, None] = {}
        self._open_of_tenants: Counter[str] = Counter()
        self._log: Any = structlog.get_logger("dragoman.breaker")

    def declare(self, upstream: str, *, of_tenants: bool = False) -> None:
        """Make a kind of upstream visible before it fails."""
        if of_tenants:
            self._open_of_tenants.setdefault(upstream, 0)
            self._metrics.dependencies.tenant_breakers(upstream, self._open_of_tenants[upstream])
        elif upstream not in self._own:
            self._own[upstream] = None
            self._metrics.dependencies.breaker(upstream, "closed")

    def guard(
        self, upstream: str, *, host: str = "", tenant: UUID | None = None, failures: Failures = NETWORK_FAILURES
    ) -> "Guard":
        """Use as `async with`: what is inside runs unless the breaker is open.

        `failures` says what counts against the upstream. Any other exception means that it answered; a cancellation
        means nothing either way. Exceptions pass through unchanged.

        Raises:
            UpstreamUnavailable: it is open; `retry_after_s` is what remains of the cooldown.
        """
        self.declare(upstream, of_tenants=tenant is not None)
        return Guard(self, _Place(upstream, host, tenant), failures)

    def check(self, upstream: str, *, host: str, tenant: UUID) -> None:
        """Refuse what `guard` would refuse, for callers that cannot tell such a refusal from another failure.

        Raises:
            UpstreamUnavailable: the breaker is open.
        """
        circuit = self._circuits.get(tenant, {}).get(_Place(upstream, host, tenant))
        if circuit is not None and circuit.state == "open" and (remaining_s := self._remaining_s(circuit)) > 0:
            raise UpstreamUnavailable(upstream, retry_after_s=math.ceil(remaining_s))

    def states(self) -> dict[str, str]:
        """Return the worst state of each kind of upstream that is the operator's own."""
        states: dict[str, str] = dict.fromkeys(self._own, "closed")
        for place, circuit in self._circuits.get(None, {}).items():
            states[place.upstream] = max(states[place.upstream], circuit.state, key=_SEVERITY.__getitem__)
        return states

    def open_of_tenants(self) -> dict[str, int]:
        """Return how many breakers of tenants' own upstreams are not closed, by kind."""
        return dict(self._open_of_tenants)

    def report(self) -> tuple[dict[str, str], dict[str, int]]:
        """Return `states` and `open_of_tenants`."""
        return self.states(), self.open_of_tenants()

    def admit(self, place: _Place) -> int:
        """Let a call through and return the epoch it belongs to; called by the guard."""
        circuit = self._circuits.get(place.tenant, {}).get(place)
        if circuit is None:
            return 0
        if circuit.state == "closed":
            return circuit.epoch
        remaining_s = self._remaining_s(circuit)
        if circuit.state == "half-open" or remaining_s > 0:
            raise UpstreamUnavailable(place.upstream, retry_after_s=max(1, math.ceil(remaining_s)))
        self._move(place, circuit, "half-open")
        return circuit.epoch

    def settle(self, place: _Place, epoch: int, *, answered: bool | None) -> None:
        """Take the verdict of a call; None is a call that was given up. Called by the guard."""
        circuits = self._circuits.get(place.tenant, {})
        circuit = circuits.get(place)
        if circuit is None:
            if answered is not False:
                return
            circuit = self._enter(place)
        elif epoch != circuit.epoch:
            return  # it began before the breaker moved: the trial decides, not a straggler
        if answered is None:
            if circuit.state == "half-open":
                self._move(place, circuit, "open")  # the cooldown is over: the next call is the trial
        elif answered:
            if circuit.state == "half-open":
                self._move(place, circuit, "closed")
            self._leave(place)
        else:
            circuit.failures += 1
            if circuit.state == "half-open" or circuit.failures >= self._threshold:
                circuit.opened_at = self._clock()
                self._move(place, circuit, "open")

    def _remaining_s(self, circuit: _Circuit) -> float:
        return circuit.opened_at + self._cooldown_s - self._clock()

    def _enter(self, place: _Place) -> _Circuit:
        circuits = self._circuits.setdefault(place.tenant, {})
        if len(circuits) >= MOST_OF_TENANT:
            oldest, circuit = next(iter(circuits.items()))
            if circuit.state != "closed":
                self._move(oldest, circuit, "closed")
            del circuits[oldest]
        circuit = circuits[place] = _Circuit()
        return circuit

    def _leave(self, place: _Place) -> None:
        circuits = self._circuits[place.tenant]
        del circuits[place]
        if not circuits:
            del self._circuits[place.tenant]

    def _move(self, place: _Place, circuit: _Circuit, state: State) -> None:
        before, circuit.state = circuit.state, state
        circuit.epoch += 1
        if place.tenant is None:
            self._metrics.dependencies.breaker(place.upstream, self.states()[place.upstream])
        else:
            self._open_of_tenants[place.upstream] += (state != "closed") - (before != "closed")
            self._metrics.dependencies.tenant_breakers(place.upstream, self._open_of_tenants[place.upstream])
        whose = {"tenant_id": str(place.tenant)} if place.tenant is not None else {}
        self._log.warning(
            "breaker moved",
            upstream=place.upstream,
            host=place.host,
            before=before,
            after=state,
            failures=circuit.failures,
            **whose,
        )


class Guard:
    """One call to an upstream, under its breaker. `failed` is set for an answer that is one of a broken upstream."""

    __slots__ = ("_breakers", "_epoch", "_failures", "_place", "failed")

    def __init__(self, breakers: Breakers, place: _Place, failures: Failures) -> None:
        self._breakers = breakers
        self._place = place
        self._failures = failures
        self._epoch = -1
        self.failed = False

    async def __aenter__(self) -> Self:
        self._epoch = self._breakers.admit(self._place)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        answered: bool | None = not self.failed
        if isinstance(error, self._failures):
            answered = False
        elif error is not None and not isinstance(error, Exception):
            answered = None
        self._breakers.settle(self._place, self._epoch, answered=answered)
