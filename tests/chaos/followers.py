"""Clients that follow tasks over SSE and come back after every cut, with the number of the last event they saw."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from threading import Event

import httpx

from tests.chaos.installation import Installation

_AT_ONCE = 12
# A stream that says nothing for so long is left, and followed again from where it was.
_CALL_S = 15.0


@dataclass
class Followed:
    """What one follower saw."""

    name: str
    task_id: str
    seen: list[int] = field(default_factory=list[int])
    cuts: int = 0
    ended: bool = False


class Followers:
    """Follow tasks to their end, a dozen at once; what comes beyond that is not followed."""

    def __init__(self, site: Installation, giving_up: Event, seed: int) -> None:
        self._servers = [node for node in site.nodes.values() if node.serves]
        self._giving_up = giving_up
        self._chance = Random(seed)
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="follower")
        self._running: list[Future[None]] = []
        self.followed: list[Followed] = []

    def follow(self, name: str, task_id: str) -> None:
        """Follow a task, if there is room."""
        if sum(not one.done() for one in self._running) < _AT_ONCE:
            followed = Followed(name, task_id)
            self.followed.append(followed)
            self._running.append(self._pool.submit(self._go, followed, self._chance.random()))

    def finish(self) -> None:
        """Wait for every follower; they end with their tasks, or when the run gives up."""
        self._pool.shutdown(wait=True)

    def complaints(self) -> list[str]:
        """Compare what each saw with the log as it is read afterwards: a gap, a double or a disorder is told."""
        found: list[str] = []
        for followed in self.followed:
            whole = Followed(followed.name, followed.task_id)
            with httpx.Client(base_url=self._servers[0].url, timeout=_CALL_S) as client:
                self._read(client, self._servers[0].token(), whole)
            expected = whole.seen if followed.ended else whole.seen[: len(followed.seen)]
            if followed.seen != expected:
                found.append(f"{followed.name} {followed.task_id}: saw {followed.seen}, the log has {expected}")
        return found

    def _go(self, followed: Followed, luck: float) -> None:
        chance = Random(luck)
        while not self._giving_up.is_set():
            server = chance.choice(self._servers)
            try:
                with httpx.Client(base_url=server.url, timeout=_CALL_S) as client:
                    followed.ended = self._read(client, server.token(), followed)
                if followed.ended:
                    return
            except httpx.HTTPError:
                followed.cuts += 1
            self._giving_up.wait(0.3)

    def _read(self, client: httpx.Client, token: str, followed: Followed) -> bool:
        """Read one stream from where the follower is; True when the task has ended and all of it was seen."""
        last = followed.seen[-1] if followed.seen else 0
        headers = {"authorization": f"Bearer {token}", "A2A-Version": "1.0", "Last-Event-ID": str(last)}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": followed.task_id}}
        with client.stream("POST", "/a2a", json=body, headers=headers) as answer:
            if "text/event-stream" not in answer.headers.get("content-type", ""):
                return b"the task has ended" in answer.read()
            for line in answer.iter_lines():
                if line.startswith("id: "):
                    followed.seen.append(int(line[4:]))
        return False
