"""The person who is asked about effects that nobody knows the outcome of, and answers with what the journal says."""

from contextlib import suppress

import httpx

from tests.chaos.callers import ENDED, Caller, Json, message
from tests.chaos.installation import Installation
from tests.chaos.persistence import Book, Taken
from tests.chaos.verdict import Check

_KNOWN = "SELECT 1 FROM effects WHERE canonical_id = $1::text::uuid AND outcome IS NOT NULL"


class Parked:
    """Answers every task that waits for a person, honestly."""

    def __init__(self, site: Installation, book: Book) -> None:
        self._site, self._book = site, book
        self._caller = Caller(next(node for node in site.nodes.values() if node.serves))
        self._answered: set[str] = set()
        self._ended: set[str] = set()
        self._known: list[str] = []

    @property
    def asked(self) -> int:
        """How many tasks waited for a person."""
        return len(self._answered)

    def answer(self) -> int:
        """Answer whatever waits now; gives how many tasks have not ended."""
        waiting = [one for one in list(self._book.taken.values()) if one.task_id not in self._ended]
        # A server may not be back from the last fault: it is asked again.
        with suppress(httpx.HTTPError):
            for one in waiting:
                self._look_at(one)
        return sum(one.task_id not in self._ended for one in waiting)

    def _look_at(self, one: Taken) -> None:
        answer = self._caller.rest("GET", f"/api/tasks/{one.task_id}")
        task = answer.json().get("data") if answer.is_success else None
        if task is None:
            return
        if task["state"] in ENDED:
            self._ended.add(one.task_id)
        elif task["state"] == "input_required" and one.task_id not in self._answered and _step(task) is not None:
            self._tell(one, task)

    def check(self) -> Check:
        """A person is asked only about effects whose outcome the ledger does not have."""
        self._caller.close()
        return Check("asked about what the ledger knows", self.asked, self._known)

    def _tell(self, one: Taken, task: Json) -> None:
        if self._site.postgres.run(_KNOWN, one.task_id):
            self._known.append(f"{one.name} {one.task_id}")
        done = bool(self._site.journal.read(one.name, "effect"))
        told = {"effect": {"step": _step(task), "done": done, "outcome": {"name": one.name} if done else {}}}
        if one.lane == "turn":
            params = message({"data": told}, at_once=True, taskId=one.task_id)
            answered = self._caller.a2a("SendMessage", params, key=f"{one.name}-told").is_success
        else:
            path = f"/api/tasks/{one.task_id}/input"
            answered = self._caller.rest("POST", path, told, key=f"{one.name}-told").is_success
        if answered:
            self._answered.add(one.task_id)


def _step(task: Json) -> str | None:
    """The step that a question is about; None where it is about something else."""
    question = str(task.get("question") or "")
    return next((step for step in ("a2a.send", "mcp.call.1", "act") if f"'{step}'" in question), None)
