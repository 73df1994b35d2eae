"""A system beside the installation that subscribed to `task.finished`, and counts what it is told by `webhook-id`."""

import time
from queue import Empty
from random import Random
from types import TracebackType
from typing import Any, Final, Self

from tests.chaos.installation import Installation
from tests.chaos.verdict import Check
from tests.receiver import Receiver, Reply

# Deliveries that a killed process had leased are due again soon.
BRIEF: Final = {
    "DRAGOMAN_SUBSCRIPTIONS__TIMEOUT_S": "2",
    "DRAGOMAN_SUBSCRIPTIONS__RETRY_BASE_S": "0.2",
    "DRAGOMAN_SUBSCRIPTIONS__RETRY_MAX_S": "2",
    "DRAGOMAN_SUBSCRIPTIONS__MAX_ATTEMPTS": "30",
}
_ENDED: Final = """
SELECT t.id, t.state FROM tasks t JOIN delegations d ON d.tenant_id = t.tenant_id AND d.task_id = t.id
WHERE t.state IN ('succeeded', 'failed', 'rejected', 'cancelled', 'dead_letter')"""
_ANSWERS: Final = 2_000
_REFUSED: Final = 0.05
_LOOK_S: Final = 0.5


class Subscriber:
    """Takes most of what it is sent; a part is refused first, and has to come again."""

    def __init__(self, site: Installation, seed: int) -> None:
        self._site = site
        chance = Random(f"{seed}-subscriber")
        replies = [Reply(503 if chance.random() < _REFUSED else 204) for _ in range(_ANSWERS)]
        self._receiver = Receiver(*replies)
        # By the run that has ended: the state that was told, under each webhook-id.
        self._told: dict[str, dict[str, str]] = {}
        self.requests = 0

    def subscribe(self) -> None:
        """Subscribe in the tenant that the clients work in."""
        caller = self._site.caller(next(iter(self._site.nodes)))
        made = caller.rest("POST", "/api/subscriptions", {"url": self._receiver.url, "events": ["task.finished"]})
        assert made.status_code == 201, made.text

    def finish(self, *, within_s: float) -> None:
        """Wait until every task that has ended was told of, and what was sent twice has come."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            self._take()
            left = self._site.postgres.run("SELECT 1 FROM subscription_deliveries WHERE state = 'pending' LIMIT 1")
            if not left and set(self._ended()) <= set(self._told):
                break
            time.sleep(_LOOK_S)
        self._take()

    def check(self) -> Check:
        """Every run that has ended was told of under one id, with the state that it has, and no other run was."""
        ended = self._ended()
        wrong = [f"{run} is {state}, and was not told of" for run, state in ended.items() if run not in self._told]
        for run, messages in self._told.items():
            if list(messages.values()) != [ended.get(run)]:
                wrong.append(f"{run} is {ended.get(run)}, and was told of as {messages}")
        return Check("ended tasks untold, or told otherwise", len(ended), wrong)

    def _ended(self) -> dict[str, str]:
        return {str(row["id"]): row["state"] for row in self._site.postgres.run(_ENDED)}

    def _take(self) -> None:
        while True:
            try:
                notification = self._receiver.received.get_nowait()
            except Empty:
                return
            self.requests += 1
            data: dict[str, Any] = notification.json["data"]
            self._told.setdefault(data["run_id"], {})[notification.headers["webhook-id"]] = data["state"]

    def __enter__(self) -> Self:
        self._receiver.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._receiver.__exit__(kind, error, trace)
