"""What must hold after a chaos run, whatever was done to the processes: each check is a row, with what it found."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from dragoman.services.tasks.lifecycle import TRANSITIONS, State
from tests.chaos import imports
from tests.chaos.callers import Caller
from tests.chaos.faults import Pause
from tests.chaos.followers import Followers
from tests.chaos.installation import Installation
from tests.chaos.journal import ACTIVE, Entry, overlaps
from tests.chaos.persistence import Book, Taken
from tests.chaos.webhooks import complaints


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the table: how many were looked at, and what was wrong."""

    what: str
    of: int
    violations: list[str] = field(default_factory=list[str])


class Verdict:
    """Looks at an installation after it has come to rest."""

    def __init__(self, site: Installation, book: Book, followers: Followers, pauses: list[Pause]) -> None:
        self._site, self._book, self._followers, self._pauses = site, book, followers, pauses
        self._entries = site.journal.read()
        self._known = {str(row["id"]) for row in site.postgres.run("SELECT id FROM tasks")}

    def checks(self) -> list[Check]:
        """Every check, in the order of the table."""
        taken = list(self._book.taken.values())
        return [
            Check("acknowledged tasks lost", len(taken), [f"{one}" for one in taken if one.task_id not in self._known]),
            self._unasked(taken),
            Check("tasks stuck or ended otherwise", len(taken), self._stuck(taken)),
            Check("effects doubled or missing", len(taken), self._effects(taken)),
            self._overlaps("turns that overlap", [one for one in taken if one.lane == "turn"], ACTIVE),
            # An attempt that was stopped in the middle of its effect may end it: the next one waits for that.
            self._overlaps("actions that overlap", [one for one in taken if one.lane == "action"], ("begin", "tick")),
            Check("webhooks lost, doubled, out of turn", len(self._book.webhooks), complaints(self._site, self._book)),
            Check(
                "imports lost, doubled or in part", len(self._book.imports), imports.complaints(self._site, self._book)
            ),
            Check("keys with two tasks", len(taken), self._book.two_tasks),
            Check("followers with gap, double, disorder", len(self._followers.followed), self._followers.complaints()),
            self._logs(),
            self._attempts(),
            self._audit_chain(),
            self._audit_records(),
            self._orphans(),
            Check("HTTP 500", sum(self._book.refused.values()), self._book.http_500),
            Check("answers that nobody expected", len(taken), self._book.wrong),
            Check("requests never acknowledged", len(taken), self._book.unanswered),
        ]

    def _unasked(self, taken: list[Taken]) -> Check:
        """Every task is one that somebody was told of, or a later run of it."""
        statement = """SELECT t.id, coalesce(d.canonical_id, t.id) AS asked FROM tasks t
            LEFT JOIN delegations d ON d.tenant_id = t.tenant_id AND d.task_id = t.id
            WHERE d.action IS DISTINCT FROM 'webhook.process'"""
        rows, known = self._site.postgres.run(statement), {one.task_id for one in taken}
        wrong = [f"{row['id']} of {row['asked']}" for row in rows if str(row["asked"]) not in known]
        return Check("tasks that nobody asked for", len(rows), wrong)

    def _stuck(self, taken: list[Taken]) -> list[str]:
        found: list[str] = []
        with_caller = Caller(next(node for node in self._site.nodes.values() if node.serves))
        try:
            for one in taken:
                task = with_caller.task(one.task_id)
                if task["state"] != one.state:
                    found.append(f"{one.name} {one.task_id} ({one.lane}) is {task['state']}: {_why(task)}")
                elif one.result is not None and task["result"] != one.result:
                    found.append(f"{one.name} {one.task_id}: {task['result']}")
                elif one.run is not None and task["run"] != one.run:
                    found.append(f"{one.name} {one.task_id}: run {task['run']}, not {one.run}")
        finally:
            with_caller.close()
        return found

    def _effects(self, taken: list[Taken]) -> list[str]:
        times = Counter(one.name for one in self._entries if one.what == "effect")
        times.update({path.name: len(path.read_text().splitlines()) for path in self._site.forms.iterdir()})
        found: list[str] = []
        for one in taken:
            done = times[one.name]
            good = {"once": done == 1, "repeatable": done >= 1, "none": done == 0}[one.effect]
            if one.state == "succeeded" and not good:
                found.append(f"{one.name} {one.task_id} ({one.lane}, {one.effect}): {done} times")
        return found

    def _overlaps(self, what: str, taken: list[Taken], active: tuple[str, ...]) -> Check:
        names = {one.name for one in taken}
        lines = [one for one in self._entries if one.name in names]
        on_their_way = {line for pause in self._pauses for line in _on_its_way(pause, lines)}
        return Check(what, len(names), overlaps([one for one in lines if one not in on_their_way], active=active))

    def _logs(self) -> Check:
        """Every log is whole: no number is missing, every step is one of the lifecycle, and the queue is empty."""
        logs: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        for row in self._site.postgres.run("SELECT task_id, seq, body FROM task_events ORDER BY task_id, seq"):
            logs.setdefault(str(row["task_id"]), []).append((row["seq"], json.loads(row["body"])))
        wrong = [f"{task_id}: {why}" for task_id, log in logs.items() if (why := _broken(log))]
        left = self._site.postgres.run("SELECT task_id FROM task_queue")
        wrong += [f"{row['task_id']} is in the queue" for row in left]
        return Check("logs broken, or tasks left in the queue", len(logs), wrong)

    def _attempts(self) -> Check:
        """Every attempt is in the log of its task: once, in order, and none is missing.

        The numbers go on over the runs of a task. One that was lost before it could say that it had begun is there by
        the attempt that came after it.
        """
        statement = """SELECT coalesce(d.canonical_id, t.id) AS asked, coalesce(d.run, 1) AS run, t.attempt, e.body
            FROM tasks t JOIN task_events e ON e.task_id = t.id
            LEFT JOIN delegations d ON d.tenant_id = t.tenant_id AND d.task_id = t.id ORDER BY asked, run, e.seq"""
        begun: dict[str, list[int]] = {}
        last: dict[str, int] = {}
        for row in self._site.postgres.run(statement):
            asked, body = str(row["asked"]), json.loads(row["body"])
            last[asked] = row["attempt"]
            if body["kind"] == "status" and body["to"] == "in_progress" and not body.get("refused"):
                begun.setdefault(asked, []).append(body["attempt"])
        wrong = [
            f"{asked} is at attempt {last[asked]}, its log has {attempts}"
            for asked, attempts in begun.items()
            if attempts != [*range(1, last[asked] + 1)]
        ]
        return Check("attempts missing, doubled or in disorder", sum(map(len, begun.values())), wrong)

    def _audit_chain(self) -> Check:
        """Export the trail and check it with the verifier that needs no server, against the heads of all servers."""
        server = next(node for node in self._site.nodes.values() if node.serves)
        place = self._site.place / "audit"
        place.mkdir()
        exported = server.cli("audit", "export", str(place / "trail.jsonl"))
        verifier = place / "verify_audit.py"
        verifier.write_text(server.cli("audit", "verifier").stdout)
        verified = server.cli("audit", "verify", "--json")
        key = json.loads(verified.stdout)["public_key"]
        wrong = [said for said in (exported, verified) if said.returncode]
        violations = [said.stdout + said.stderr for said in wrong]
        heads = [node.data_dir / "audit" / "heads.jsonl" for node in self._site.nodes.values()]
        for head in (path for path in heads if path.exists()):
            ran = subprocess.run(
                [sys.executable, str(verifier), str(place / "trail.jsonl"), "--public-key", key, "--head", str(head)],
                capture_output=True,
                text=True,
                check=False,
            )
            violations += [f"{head}: {ran.stdout}{ran.stderr}"] if ran.returncode else []
        return Check("audit chain broken, offline", len((place / "trail.jsonl").read_text().splitlines()), violations)

    def _audit_records(self) -> Check:
        """Every acknowledged write has its record."""
        statement = "SELECT body FROM audit_records WHERE outcome = 'done'"
        records = [json.loads(row["body"]) for row in self._site.postgres.run(statement)]
        known = {(one["operation"], task) for one in records for task in _resources(one)}
        missing = [f"{operation} {task}" for operation, task in self._book.writes if (operation, task) not in known]
        return Check("acknowledged writes without audit record", len(self._book.writes), missing)

    def _orphans(self) -> Check:
        """Nothing runs that was started and is not the process of today."""
        nodes = [*self._site.nodes.values(), *self._site.partners.values()]
        started = [pid for node in nodes for pid in node.started]
        now = {node.pid for node in nodes if node.alive}
        left = [f"{pid}: {command}" for pid, command in _running_in(self._site.place).items() if pid not in now]
        backends = {self._site.postgres.pid, self._site.valkey.pid}
        left = [one for one in left if not _below(int(one.split(":")[0]), now | backends)]
        return Check("orphan processes", len(started), left)


def _on_its_way(pause: Pause, lines: list[Entry]) -> Generator[Entry]:
    """The lines that say nothing about two that run at once: they were being written when their process was stopped.

    It writes one such line of each run when it goes on, and none after that. What asks first (a step) or matters
    outside (an effect of a turn) has no such excuse.
    """
    gone_on: set[str] = set()
    for line in sorted(
        (one for one in lines if one.pid in pause.pids and one.at >= pause.began), key=lambda one: one.at
    ):
        if line.run not in gone_on and line.what in ("tick", "end"):
            yield line
        if line.at > pause.ended:
            gone_on.add(line.run)


def _broken(log: list[tuple[int, dict[str, Any]]]) -> str | None:
    numbers = [number for number, _ in log]
    if numbers != list(range(1, len(log) + 1)):
        return f"numbers {numbers}"
    steps = [body for _, body in log if body["kind"] == "status" and not body.get("refused")]
    for before, after in pairwise(steps):
        taken_over = after["from"] == after["to"] == "in_progress"
        if after["from"] != before["to"]:
            return f"{before['to']}, then from {after['from']}"
        if not taken_over and State(after["to"]) not in TRANSITIONS[State(after["from"])]:
            return f"{after['from']} became {after['to']}"
    return None


def _why(task: dict[str, Any]) -> str:
    return str(task.get("error") or task.get("question") or "")[:200]


def _resources(record: dict[str, Any]) -> list[str]:
    resource = record.get("resource")
    return [] if resource is None else [str(resource).rpartition(":")[2].rpartition("/")[2]]


def _running_in(place: Path) -> dict[int, str]:
    """Every process that has this directory in its command line or its environment."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                environment = (entry / "environ").read_bytes().decode(errors="replace")
                if command and str(place) in command + environment:
                    found[int(entry.name)] = command[:120]
    return found


def _below(pid: int, known: set[int]) -> bool:
    """Check whether a process is one of these, or below one of them."""
    while pid > 1:
        if pid in known:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return True  # it has ended meanwhile
    return False
