"""The story, told while it happens: nothing in it is staged but the courier."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from dragoman.demo.courier import read_book
from dragoman.demo.stage import Stage
from dragoman.demo.store_forgery import forge
from dragoman.parity.doors import DOORS, Door, Target

Json = dict[str, Any]
_LONGEST_S: Final = 60
_DOORS: Final = ("a2a", "mcp", "cli")


class Tell(Protocol):
    """Prints a line."""

    def __call__(self, text: str, style: str = "") -> None:
        """In this style."""
        ...


class StoryError(Exception):
    """Something came differently from what the story promises."""


class Story:
    """Seven scenes."""

    def __init__(self, stage: Stage, directory: Path, tell: Tell) -> None:
        self._stage = stage
        self._book = directory / "deliveries.jsonl"
        self._tell = tell
        self._task_id = ""

    def play(self) -> None:
        """From the first scene to the last.

        Raises:
            StoryError: the server did not keep its promises.
        """
        self._scene("A server of its own", "PostgreSQL, Valkey, one process")
        self._stage.start()
        self._tell(f"  ready at {self._stage.url}", "dim")
        envelope = self._refused()
        approval_id = self._asked(envelope)
        self._met(envelope, approval_id)
        self._approved(approval_id)
        self._killed()
        self._proven()

    def _refused(self) -> Json:
        self._scene("An agent hands over a sensitive action, with nothing to show for it", "")
        envelope: Json = {
            "envelope_version": "1",
            "actor": {"id": "alice", "type": "human"},
            "action": "courier.deliver",
            "resource": {"type": "contract", "id": "nda-acme"},
            "matter": {"id": "acme-2026", "title": "Acme onboarding"},
            "idempotency_key": "deliver-nda-acme",
            "request": {"correlation_id": "demo"},
            "input": {"to": "Acme Ltd", "book": str(self._book)},
        }
        refused = self._door("mcp").call("task_submit", {"envelope": envelope}).get("error", {})
        self._expect(refused.get("code") == "GOVERNANCE_CONTEXT_REQUIRED", "the action was not refused")
        self._tell(f"  {refused['code']}  {refused['message']}", "red")
        missing = {one["field"].rpartition(".")[2]: one for one in refused["details"]["missing"]}
        policies = missing["policy_refs"]["policies"]
        self._tell(f"  the policy that demands it: {policies[0]['id']} {policies[0]['version']}", "dim")
        return envelope | {"governance": {"policy_refs": policies, "approval_refs": []}}

    def _asked(self, envelope: Json) -> str:
        self._scene("Alice asks for an approval of exactly this", "")
        asked = {
            "action": envelope["action"],
            "resource": envelope["resource"],
            "matter_id": envelope["matter"]["id"],
            "input": envelope["input"],
            "reason": "terms are agreed",
        }
        made = self._door("rest").call("approval_request", asked)
        self._expect("approval_id" in made, f"no approval could be asked for: {made}")
        self._tell(f"  approval {made['approval_id']}, bound to sha256 {str(made['digest'])[:16]}", "dim")
        return str(made["approval_id"])

    def _met(self, envelope: Json, approval_id: str) -> None:
        self._scene("The same envelope arrives by A2A, by MCP and from a shell", "")
        envelope["governance"]["approval_refs"] = [approval_id]
        ids: set[str] = set()
        for name in _DOORS:
            made = self._door(name).call("task_submit", {"envelope": envelope})
            self._expect("task_id" in made, f"{name} refused it: {made}")
            ids.add(str(made["task_id"]))
            again = "the same task" if made["replayed"] else "a new task"
            self._tell(f"  {name:<4} {made['task_id']}  {made['state']}  {again}", "cyan")
        self._expect(len(ids) == 1, "there is more than one task")
        [self._task_id] = ids

    def _approved(self, approval_id: str) -> None:
        self._scene("Bob approves; Alice could not have", "")
        yes = {"approval_id": approval_id, "decision": "approve", "reason": "seen and agreed"}
        own = self._door("cli").call("approval_decide", yes).get("error")
        if own is None:
            raise StoryError("Alice approved her own request")
        self._tell(f"  alice: {own['code']}  {own['message']}", "red")
        done = self._door("cli", user="bob", role="operator").call("approval_decide", yes)
        self._expect("error" not in done, f"Bob could not approve: {done}")
        self._tell("  bob: approved", "green")

    def _killed(self) -> None:
        self._scene("kill -9, while the courier is on its way", "")
        self._until(lambda: read_book(self._book), "the courier never left")
        self._stage.kill()
        self._tell("  the process is gone: the delivery is in the book, its outcome is nowhere", "red")
        self._stage.start()
        self._tell(f"  started again at {self._stage.url}", "dim")
        self._until(lambda: self._status("cli")["state"] == "succeeded", "the task did not come to its end")
        for name in _DOORS:
            view = self._status(name)
            self._tell(f"  {name:<4} {view['state']}, attempt {view['attempt']}", "cyan")
        deliveries = read_book(self._book)
        self._expect(len(deliveries) == 1, f"it was delivered {len(deliveries)} times")
        self._tell("  deliveries in the book: 1", "green")

    def _proven(self) -> None:
        self._scene("One record is changed in the database", "")
        self._until(lambda: self._verified()["unsealed"] == 0, "the trail was not sealed")
        whole = self._verified()
        self._expect(bool(whole["ok"]), f"the trail is not whole: {whole['problems']}")
        self._tell(f"  before: {whole['records']} records, whole", "green")
        asyncio.run(forge(self._stage.database_url, "approval.decide", '"bob"', '"eve"'))
        bent = self._verified()
        self._expect(not bent["ok"], "nobody noticed")
        for problem in bent["problems"][:3]:
            self._tell(f"  audit verify: link {problem['seq']}: {problem['reason']}", "red")

    def _verified(self) -> Json:
        return self._door("rest").call("audit_verify", {})

    def _status(self, door: str) -> Json:
        return self._door(door).call("task_status", {"task_id": self._task_id})

    def _door(self, name: str, *, user: str = "alice", role: str = "org_admin") -> Door:
        return DOORS[name](Target(self._stage.url, self._stage.token(user, role), self._stage.environment))

    def _scene(self, title: str, more: str) -> None:
        self._tell("")
        self._tell(title, "bold")
        if more:
            self._tell(f"  {more}", "dim")

    def _until(self, condition: Callable[[], Any], otherwise: str) -> None:
        ends = time.monotonic() + _LONGEST_S
        while not condition():
            self._expect(time.monotonic() < ends, otherwise)
            time.sleep(0.05)

    def _expect(self, so: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as a sentence
        if not so:
            raise StoryError(otherwise)
