"""Clients that repeat everything with the same key until it is acknowledged, and remember what was."""

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from threading import Event, Lock

import httpx

from tests.chaos.callers import ENDED, Caller, Json
from tests.chaos.installation import Installation

_PAUSE_S = 0.2
# Answers that say "not now": they are repeated, and all others are not.
_LATER = (429, 502, 503, 504)


class GaveUp(Exception):
    """The run is over, and something was never acknowledged."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A task that was acknowledged: what it is to become, and how often its effect may happen."""

    name: str
    task_id: str
    lane: str
    # The state that it must end in, and what must come of it where that is known.
    state: str = "succeeded"
    result: Json | None = None
    # "once", "repeatable" or "none".
    effect: str = "once"
    run: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedImport:
    """A file of billing data: the period that it is of, and what it adds up to."""

    period: str
    total: Decimal


@dataclass
class Book:
    """What was acknowledged, refused and wrong in a run; many threads write it."""

    taken: dict[str, Taken] = field(default_factory=dict[str, Taken])
    # Operation and task of every acknowledged write that leaves an audit record.
    writes: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    # The ids that each acknowledged webhook was answered with.
    webhooks: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    imports: dict[str, PlannedImport] = field(default_factory=dict[str, PlannedImport])
    refused: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    two_tasks: list[str] = field(default_factory=list[str])
    http_500: list[str] = field(default_factory=list[str])
    unanswered: list[str] = field(default_factory=list[str])
    _lock: Lock = field(default_factory=Lock)

    def take(self, taken: Taken) -> None:
        """Remember a task; a key that names another task already is a violation."""
        with self._lock:
            known = self.taken.setdefault(taken.name, taken)
        if known.task_id != taken.task_id:
            self.two_tasks.append(f"{taken.name}: {known.task_id} and {taken.task_id}")

    def sent_webhook(self, name: str, ids: set[str]) -> None:
        """Remember a webhook that was acknowledged."""
        with self._lock:
            self.webhooks[name] = ids

    def plan_import(self, name: str, period: str, rows: int) -> Decimal:
        """Remember a file before it is sent; gives the amount of each of its rows, which no other file has."""
        with self._lock:
            amount = len(self.imports) + Decimal("1.05")
            self.imports[name] = PlannedImport(period, rows * amount)
        return amount

    def wrote(self, operation: str, task_id: str) -> None:
        """Remember a write; a repetition of it is the same write."""
        with self._lock:
            self.writes[operation, task_id] = 1


class Client:
    """One person who calls any server that answers, by any door, until it is done."""

    def __init__(
        self, site: Installation, book: Book, chance: Random, giving_up: Event, *, user: str = "admin"
    ) -> None:
        self._site, self._book, self._giving_up = site, book, giving_up
        self.chance = chance
        self._callers = {name: Caller(node, timeout_s=8, user=user) for name, node in site.nodes.items() if node.serves}

    def close(self) -> None:
        """Close its connections."""
        for caller in self._callers.values():
            caller.close()

    @contextmanager
    def another(self) -> Generator["Client"]:
        """Another person, with the same chances."""
        other = Client(self._site, self._book, self.chance, self._giving_up, user="bob")
        try:
            yield other
        finally:
            other.close()

    def caller(self) -> Caller:
        """A caller at a server that is chosen by chance."""
        return self._callers[self.chance.choice(list(self._callers))]

    def rest(self, method: str, path: str, body: Json | None = None, *, key: str | None = None) -> Json:
        """Call the REST API until it answers for good; gives the data."""
        answer = self.until_done(f"{method} {path}", lambda caller: caller.rest(method, path, body, key=key))
        return answer.json()["data"]

    def a2a(self, method: str, params: Json, *, key: str | None = None) -> Json:
        """Call A2A until it answers for good; gives the result."""
        answer = self.until_done(f"a2a {method}", lambda caller: caller.a2a(method, params, key=key)).json()
        if "result" not in answer:
            self.complain(f"a2a {method}: {answer['error']}")
        return answer["result"]

    def mcp(self, tool: str, arguments: Json, *, key: str | None = None) -> Json:
        """Call a tool over MCP until it answers for good; gives its output."""
        while True:
            answer = self.until_done(f"mcp {tool}", lambda caller: caller.mcp_answer(tool, arguments, key=key))
            result = Caller.mcp_result(answer)
            output = result.get("structuredContent") or {}
            if not result.get("isError"):
                return output
            error = output.get("error", {})
            if not error.get("retryable"):
                self.complain(f"mcp {tool}: {error}")
            self._later(f"mcp {error.get('code')}")

    def until_done(self, what: str, send: Callable[[Caller], httpx.Response]) -> httpx.Response:
        """Send until the answer is neither lost nor "not now".

        Raises:
            GaveUp: the run ended first, or the answer is a refusal that nobody expected.
        """
        while True:
            try:
                answer = send(self.caller())
            except httpx.HTTPError as error:
                self._later(type(error).__name__)
                continue
            if answer.is_success:
                return answer
            if answer.status_code == 500:
                self._book.http_500.append(f"{what}: {answer.text[:300]}")
            elif answer.status_code not in _LATER:
                self.complain(f"{what}: {answer.status_code} {answer.text[:300]}")
            elif answer.status_code == 503 and "retry-after" not in answer.headers:
                self._book.wrong.append(f"{what}: 503 without Retry-After")
            self._later(str(answer.status_code))

    def reaches(self, task_id: str, *states: str) -> Json:
        """Wait until a task is in one of these states; any end, where none is named."""
        while True:
            task = self.rest("GET", f"/api/tasks/{task_id}")
            if task["state"] in (states or ENDED):
                return task
            self.wait(f"{task_id} is {task['state']}")

    def complain(self, what: str) -> None:
        """Remember an answer that nobody expected, and stop what was under way."""
        self._book.wrong.append(what)
        raise GaveUp(what)

    def _later(self, why: str) -> None:
        self._book.refused[why] += 1
        self.wait(why)

    def wait(self, why: str) -> None:
        """Wait a moment before the next try; `why` is told when the run is over."""
        if self._giving_up.wait(_PAUSE_S):
            raise GaveUp(why)
