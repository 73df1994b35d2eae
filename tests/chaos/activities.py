"""What the clients of a chaos run do, each under a name of its own: hand over, talk, answer, approve, cancel, retry."""

from random import Random
from typing import Final

from tests.chaos.callers import Json, envelope, message
from tests.chaos.followers import Followers
from tests.chaos.imports import Importer
from tests.chaos.installation import REMOTE_A2A, REMOTE_MCP
from tests.chaos.persistence import Book, Client, Taken
from tests.chaos.webhooks import Sender

# Sent again, by chance, although it was acknowledged.
_AGAIN: Final = 0.15
_MODES: Final = {"work.park": "once", "work.find": "once", "work.repeat": "repeatable", "work.long": "none"}


class Activities:
    """All of them; each gives up when the run ends before it is done."""

    def __init__(self, book: Book, followers: Followers, sender: Sender, importer: Importer, *, remote: bool) -> None:
        self._book = book
        self._sender = sender
        self._importer = importer
        self._followers = followers
        self._remote = remote

    def choose(self, client: Client, name: str) -> None:
        """Do one of them, by chance."""
        chosen = {
            self.hand_over: 6,
            self.talk: 8,
            self.ask_and_answer: 2,
            self.be_asked_in_a_turn: 2,
            self.approve: 1,
            self.cancel: 1,
            self.retry: 1,
            self._sender.send: 4,
            self._importer.bring: 2,
            self.hand_over_to_others: 3 if self._remote else 0,
        }
        [activity] = client.chance.choices(list(chosen), list(chosen.values()))
        activity(client, name)

    def hand_over(self, client: Client, name: str) -> None:
        """Submit an action in one of the modes of the effect ledger."""
        action = client.chance.choice(list(_MODES))
        self._submit(
            client, name, action, {"name": name, "for_s": _seconds(client.chance) or 0.05}, effect=_MODES[action]
        )

    def hand_over_to_others(self, client: Client, name: str) -> None:
        """Submit an action that a remote agent or a remote MCP server performs."""
        action = client.chance.choice((REMOTE_A2A, REMOTE_MCP))
        effect = "once" if action == REMOTE_A2A else "repeatable"
        self._submit(client, name, action, {"name": name}, effect=effect, lane="remote")

    def talk(self, client: Client, name: str) -> None:
        """Begin a turn of the agent, with an effect through the ledger of turns."""
        beat = client.chance.choice(("tick", "step", "step"))
        act = client.chance.choice(("ledger", "ledger-find"))
        self._say(client, name, {"for_s": _seconds(client.chance), "beat": beat, "fence": "progress", "act": act})

    def be_asked_in_a_turn(self, client: Client, name: str) -> None:
        """Begin a turn that asks, and answer it, some answers twice."""
        task_id = self._say(client, name, {"for_s": 0.2, "act": "ledger-find", "ask": True})
        client.reaches(task_id, "input_required")
        for _ in range(1 + _by_chance(client.chance)):
            client.a2a("SendMessage", message({"text": "yes"}, at_once=True, taskId=task_id), key=f"{name}-yes")

    def ask_and_answer(self, client: Client, name: str) -> None:
        """Submit an action that asks two questions, and answer each of them, some answers twice."""
        expected = {"answers": ["first", "second"]}
        task_id = self._submit(client, name, "work.ask", {"name": name}, effect="none", result=expected)
        for number, answer in enumerate(expected["answers"], 1):
            self._reaches_question(client, task_id, number)
            for _ in range(1 + _by_chance(client.chance)):
                given = {"input": {"answer": answer}}
                client.rest("POST", f"/api/tasks/{task_id}/input", given, key=f"{name}-{number}")
            self._book.wrote("task.provide_input", task_id)

    def approve(self, client: Client, name: str) -> None:
        """Ask for an approval, let another person decide it, and submit the action that rests on it."""
        given = envelope("work.approve", {"name": name}, idempotency_key=name)
        request = {
            "action": given["action"],
            "resource": given["resource"],
            "matter_id": given["matter"]["id"],
            "input": given["input"],
        }
        asked = client.rest("POST", "/api/approvals", request, key=f"{name}-ask")
        decision = {"decision": "approve", "digest": asked["digest"]}
        path = f"/api/approvals/{asked['approval_id']}/decide"
        with client.another() as approver:
            decided = approver.rest("POST", path, decision, key=f"{name}-yes")
        if decided["state"] != "approved":
            client.complain(f"{name}: an approval is {decided['state']}")
        refs = {"policy_refs": ["contracts-approval@1"], "approval_refs": [asked["approval_id"]]}
        made = client.rest("POST", "/api/tasks", given | {"governance": refs})
        self._book.take(Taken(name, made["task_id"], "action"))
        self._book.wrote("task.submit", made["task_id"])

    def cancel(self, client: Client, name: str) -> None:
        """Submit an action that lasts, and end it; some ends are sent twice."""
        given = {"name": name, "for_s": 50}
        task_id = self._submit(client, name, "work.long", given, effect="none", state="cancelled")
        for _ in range(1 + _by_chance(client.chance)):
            client.rest("POST", f"/api/tasks/{task_id}/cancel", {"reason": "called off"}, key=f"{name}-end")
        self._book.wrote("task.cancel", task_id)

    def retry(self, client: Client, name: str) -> None:
        """Submit an action that fails, and try it again once; the retry may be sent twice."""
        task_id = self._submit(client, name, "work.refuse", {}, effect="none", state="failed", run=2)
        client.reaches(task_id)
        for _ in range(1 + _by_chance(client.chance)):
            client.rest("POST", f"/api/tasks/{task_id}/retry", {}, key=f"{name}-again")
        self._book.wrote("task.retry", task_id)

    def _submit(
        self,
        client: Client,
        name: str,
        action: str,
        given: Json,
        *,
        effect: str,
        lane: str = "action",
        state: str = "succeeded",
        result: Json | None = None,
        run: int | None = None,
    ) -> str:
        sent = envelope(action, given, idempotency_key=name)
        task_id = ""
        for _ in range(1 + _by_chance(client.chance)):
            task_id = self._by_a_door(client, sent)
            self._book.take(Taken(name, task_id, lane, state, result, effect, run))
            self._book.wrote("task.submit", task_id)
        if client.chance.random() < 0.2:
            self._followers.follow(name, task_id)
        return task_id

    def _by_a_door(self, client: Client, sent: Json) -> str:
        match client.chance.choice(("rest", "a2a", "mcp")):
            case "rest":
                return client.rest("POST", "/api/tasks", sent)["task_id"]
            case "mcp":
                return client.mcp("task_submit", {"envelope": sent})["task_id"]
            case _:
                part = {"data": {"tool": "task_submit", "arguments": {"envelope": sent}}}
                return client.a2a("SendMessage", message(part, at_once=True))["task"]["id"]

    def _say(self, client: Client, name: str, work: Json) -> str:
        task_id = ""
        for _ in range(1 + _by_chance(client.chance)):
            said = message({"data": {"name": name, **work}}, at_once=True)
            task_id = client.a2a("SendMessage", said, key=name)["task"]["id"]
            self._book.take(Taken(name, task_id, "turn"))
        if client.chance.random() < 0.4:
            self._followers.follow(name, task_id)
        return task_id

    def _reaches_question(self, client: Client, task_id: str, number: int) -> None:
        """Wait until this question is asked."""
        while f"question {number}" not in str(client.reaches(task_id, "input_required")["question"]):
            client.wait(f"question {number} of {task_id}")


def _seconds(chance: Random) -> float:
    """Most work is short; some lasts longer than a lease."""
    return chance.choice((0.0, 0.1, 0.1, 0.5, 1.0, 3.0))


def _by_chance(chance: Random) -> int:
    return int(chance.random() < _AGAIN)
