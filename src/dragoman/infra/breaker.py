"""Circuit breakers: an upstream that keeps failing is left alone for a while, and its callers are told at once.

closed ──(threshold failures in a row)──> open ──(cooldown)──> half-open ──(one trial)──> closed | open
"""

import math
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Any, Final, Literal

import httpx
import structlog

from dragoman.errors import UpstreamUnavailable
from dragoman.infra.telemetry.metrics import Metrics

State = Literal["closed", "half-open", "open"]
Failures = tuple[type[Exception], ...]

NETWORK_FAILURES: Final[Failures] = (OSError, httpx.TransportError)


class _Circuit:
    """The state of one upstream. `epoch` tells a verdict on the present from one on the past."""

    __slots__ = ("epoch", "failures", "opened_at", "state")

    def __init__(self) -> None:
        self.state: State = "closed"
        self.failures = 0
        self.opened_at = 0.0
        self.epoch = 0


class Breakers:
    """One breaker an upstream, in this process's memory."""

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
        self._circuits: dict[str, _Circuit] = {}
        self._log: Any = structlog.get_logger("dragoman.breaker")

    def guard(self, upstream: str, *, failures: Failures = NETWORK_FAILURES) -> "Guard":
        """Use as `async with`: what is inside runs unless the breaker is open.

        `failures` says what counts against the upstream. Any other exception means that it answered; a cancellation
        means nothing either way. Exceptions pass through unchanged.

        Raises:
            UpstreamUnavailable: it is open; `retry_after_s` is what remains of the cooldown.
        """
        circuit = self._circuits.get(upstream)
        if circuit is None:
            circuit = self._circuits[upstream] = _Circuit()
            self._metrics.dependencies.breaker(upstream, circuit.state)
        return Guard(self, upstream, circuit, failures)

    def states(self) -> dict[str, str]:
        """The state of every upstream called so far, by name."""
        return {upstream: circuit.state for upstream, circuit in self._circuits.items()}

    def admit(self, upstream: str, circuit: _Circuit) -> int:
        """Let a call through and return the epoch it belongs to; called by the guard."""
        if circuit.state == "closed":
            return circuit.epoch
        remaining_s = circuit.opened_at + self._cooldown_s - self._clock()
        if circuit.state == "half-open" or remaining_s > 0:
            raise UpstreamUnavailable(upstream, retry_after_s=max(1, math.ceil(remaining_s)))
        self._move(upstream, circuit, "half-open")
        return circuit.epoch

    def settle(self, upstream: str, circuit: _Circuit, epoch: int, *, answered: bool | None) -> None:
        """Take the verdict of a call; None is a call that was given up. Called by the guard."""
        if epoch != circuit.epoch:
            return  # it began before the breaker moved: the trial decides, not a straggler
        if answered is None:
            if circuit.state == "half-open":
                self._move(upstream, circuit, "open")  # the cooldown is over: the next call is the trial
        elif answered:
            circuit.failures = 0
            if circuit.state == "half-open":
                self._move(upstream, circuit, "closed")
        else:
            circuit.failures += 1
            if circuit.state == "half-open" or circuit.failures >= self._threshold:
                circuit.opened_at = self._clock()
                self._move(upstream, circuit, "open")

    def _move(self, upstream: str, circuit: _Circuit, state: State) -> None:
        before, circuit.state = circuit.state, state
        circuit.epoch += 1
        self._metrics.dependencies.breaker(upstream, state)
        self._log.warning("breaker moved", upstream=upstream, before=before, after=state, failures=circuit.failures)


class Guard:
    """One call to an upstream, under its breaker."""

    __slots__ = ("_breakers", "_circuit", "_epoch", "_failures", "_upstream")

    def __init__(self, breakers: Breakers, upstream: str, circuit: _Circuit, failures: Failures) -> None:
        self._breakers = breakers
        self._upstream = upstream
        self._circuit = circuit
        self._failures = failures
        self._epoch = -1

    async def __aenter__(self) -> None:
        self._epoch = self._breakers.admit(self._upstream, self._circuit)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        answered: bool | None = True
        if isinstance(error, self._failures):
            answered = False
        elif error is not None and not isinstance(error, Exception):
            answered = None
        self._breakers.settle(self._upstream, self._circuit, self._epoch, answered=answered)
