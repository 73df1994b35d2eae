"""A sender of webhooks in a chaos run, and what must have come of everything that it was told is stored."""

import json
from collections import Counter
from itertools import pairwise
from typing import Any

from tests.chaos.callers import Caller, Json
from tests.chaos.installation import Installation
from tests.chaos.persistence import Book, Client
from tests.services.inbox.recorder import TOPIC
from tests.services.inbox.senders import plain

_SECRET = "a-secret-of-the-sender"


class Sender:
    """Sends to one source, at any server, until it is told that a webhook is stored."""

    def __init__(self, site: Installation, book: Book) -> None:
        self._book = book
        caller = site.caller(next(iter(site.nodes)))
        given = {"name": "chaos", "provider": "hmac", "secret": _SECRET, "account": "chaos"}
        answer = caller.rest("POST", "/api/webhook-sources", given)
        assert answer.status_code == 201, answer.text
        self._path: str = answer.json()["data"]["path"]

    def send(self, client: Client, name: str) -> None:
        """Send a webhook; some are sent again although they were acknowledged."""
        body = json.dumps({"id": name, "type": TOPIC, "data": {"text": name}}).encode()
        ids = {self._acknowledged(client, body)["id"] for _ in range(1 + (client.chance.random() < 0.15))}
        self._book.sent_webhook(name, ids)

    def _acknowledged(self, client: Client, body: bytes) -> Json:
        def send(caller: Caller) -> Any:
            return caller.http.post(self._path, content=body, headers=plain(_SECRET, body))

        return client.until_done("webhook", send).json()["data"]


def waiting(site: Installation) -> bool:
    """Check whether an event still waits, or a task for more of them."""
    statement = """SELECT FROM webhook_events WHERE state = 'received'
        UNION ALL SELECT FROM task_queue WHERE fifo_key LIKE 'queue:webhooks/%' LIMIT 1"""
    return bool(site.postgres.run(statement))


def complaints(site: Installation, book: Book) -> list[str]:
    """Return which acknowledged webhooks are lost, not processed, or had no effect, two, or one out of turn."""
    events = site.postgres.run("SELECT id, event_id, state, error::text AS error FROM webhook_events ORDER BY seq")
    kept = {str(row["event_id"]): row for row in events}
    made = site.postgres.run("SELECT content FROM memories WHERE content LIKE 'chaos %' ORDER BY created_at")
    effects = [str(row["content"]).removeprefix("chaos ") for row in made]
    times, place = Counter(effects), {str(row["event_id"]): nth for nth, row in enumerate(events)}
    wrong: list[str] = []
    for name, ids in book.webhooks.items():
        row = kept.get(name)
        if row is None or ids != {str(row["id"])}:
            wrong.append(f"{name}: acknowledged as {sorted(ids)}, stored as {row and row['id']}")
        elif row["state"] != "processed" or times[name] != 1:
            wrong.append(f"{name}: {row['state']}, {times[name]} effects, {row['error']}")
    order = [place[name] for name in effects if name in place]
    return wrong + [f"event {before} before {after}" for before, after in pairwise(order) if before > after]
