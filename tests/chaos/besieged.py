"""A server under siege: its processes are killed at random moments while tasks are handed to it."""

import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any, Self

import httpx

from tests.backstage import children_of, database_url, pid_of
from tests.harness import DRAGOMAN, Server, wait_for
from tests.services.delegation.envelopes import envelope

ACTIONS = ("count.once", "count.once", "count.unsafe", "count.nothing")
_OUTPOSTS = count(1)
_MORE = 5
VICTIMS = ("worker", "child", "postgres", "child", "worker", "server", "postgres", "child")


class Outpost:
    """`dragoman worker` beside a server, on the server's own PostgreSQL and Valkey."""

    def __init__(self, server: Server) -> None:
        self._environment = server.environment | {
            "DRAGOMAN_DATABASE_URL": database_url(server),
            "DRAGOMAN_REDIS_URL": f"unix://{server.data_dir / 'valkey' / 'valkey.sock'}",
        }
        self._log = server.log.with_name(f"worker-{next(_OUTPOSTS)}.log")
        self._process: subprocess.Popen[bytes] | None = None

    def keep(self) -> None:
        """Start it, unless it runs: one that finds no database ends, and is started again."""
        if self._process is None or self._process.poll() is not None:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [str(DRAGOMAN), "worker"], env=self._environment, stdout=log, stderr=log
                )

    def works(self) -> bool:
        """Whether it has said, ever since it was made, that it runs."""
        return "worker is running" in self._log.read_text()

    def kill(self) -> None:
        """With no time to say anything."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)

    def __enter__(self) -> Self:
        self.keep()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


@dataclass
class Siege:
    """Kills what it finds of a server, one after the other, each after a moment that nobody expects."""

    server: Server
    outpost: Outpost
    client: "Client"
    chance: Random
    killed: dict[str, int] = field(default_factory=dict[str, int])

    def kill(self, number: int) -> None:
        """As many as that, all kinds in turn; some tasks come in between, so that there is something to lose."""
        for place in range(number):
            taken = len(self.client.acknowledged) + _MORE
            wait_for(lambda: len(self.client.acknowledged) >= taken, "more tasks", 60)  # noqa: B023 - it waits here
            Event().wait(self.chance.uniform(0, 0.5))
            victim = VICTIMS[place % len(VICTIMS)]
            if victim == "server":
                self.server.stop(signal.SIGKILL)
                self.server.start()
            elif victim == "worker":
                self.outpost.kill()
            else:
                self._kill_part(victim)
            self.outpost.keep()
            self.killed[victim] = self.killed.get(victim, 0) + 1

    def _kill_part(self, victim: str) -> None:
        # What was killed a moment ago may not be back: then there is nobody to kill.
        with suppress(ProcessLookupError, FileNotFoundError, ValueError, IndexError):
            found = children_of(self.server) if victim == "child" else [pid_of(self.server, victim)]
            os.kill(self.chance.choice(found), signal.SIGKILL)


@dataclass
class Client:
    """Hands envelopes over until each is acknowledged, however often it takes, and some of them again."""

    server: Server
    chance: Random
    acknowledged: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    wrong: list[str] = field(default_factory=list[str])
    refused: int = 0

    @contextmanager
    def submitting(self, *, every_s: float) -> Generator[None]:
        """All the while that the block takes, and until the last one is acknowledged."""
        stopping = Event()
        thread = Thread(target=self._go_on, args=(stopping, every_s))
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join(60)
            assert not thread.is_alive(), "an envelope was never acknowledged"

    def _go_on(self, stopping: Event, every_s: float) -> None:
        headers = {"authorization": f"Bearer {self.server.token()}"}
        number = 0
        with httpx.Client(headers=headers, timeout=10) as client:
            while not stopping.wait(every_s):
                number += 1
                action = self.chance.choice(ACTIONS)
                name = f"n-{number}"
                given = {"name": name, "stay_s": self.chance.choice((0, 0.02, 0.3))}
                again = self._submit(
                    client, envelope(action, {} if action == "count.nothing" else given, idempotency_key=name)
                )
                if self.chance.random() < 0.1:
                    self._submit(client, again)

    def _submit(self, client: httpx.Client, given: dict[str, Any]) -> dict[str, Any]:
        while True:
            with suppress(httpx.HTTPError):
                answer = client.post(f"{self.server.url}/api/tasks", json=given)
                if answer.status_code == 201:
                    self._note(given, answer.json()["data"])
                    return given
                if answer.status_code not in (503, 504):
                    self.wrong.append(answer.text)
                    return given
            self.refused += 1
            Event().wait(0.05)

    def _note(self, given: dict[str, Any], made: dict[str, Any]) -> None:
        known = self.acknowledged.setdefault(given["idempotency_key"], {**given, "task_id": made["task_id"]})
        if known["task_id"] != made["task_id"]:
            self.wrong.append(f"{given['idempotency_key']} is two tasks")


def times_done(outside: Path, name: str) -> int:
    """How often an effect happened."""
    path = outside / name
    return len(path.read_text().splitlines()) if path.exists() else 0
