"""What records say of a thing, for people to read: who asked, who decided, who did it and with what evidence."""

import base64
import json
from collections.abc import Callable, Iterable
from typing import Any, cast

# What a record's operation means, in a word that a reader looks for.
_WORDS = {
    "message.send": "SAID",
    "message.answer": "ANSWERED",
    "task.submit": "ASKED",
    "task.retry": "ASKED AGAIN",
    "task.delegate": "STARTED",
    "task.complete": "PERFORMED",
    "task.fail": "FAILED",
    "task.cancel": "CANCELLED",
    "task.resume": "WENT ON",
    "task.provide_input": "ANSWERED",
    "task.remove": "REMOVED",
    "approval.request": "ASKED FOR APPROVAL",
    "approval.consume": "APPROVAL USED",
    "push.create": "ASKED TO BE TOLD",
    "push.delete": "NO LONGER TOLD",
}
_DECISIONS = {"approve": "APPROVED", "deny": "DENIED"}
_ENDINGS = {"refused": "REFUSED", "failed": "FAILED"}
_ALL = "all"


class Timeline:
    """Prints the records that concern some ids, oldest first; with None all of them."""

    def __init__(self, ids: frozenset[str] | None, write: Callable[[str], None]) -> None:
        self._ids = ids
        self._write = write
        self.shown = 0

    def take(self, seq: int | None, record: dict[str, Any]) -> None:
        """Print a record, if it is one of them."""
        if self._ids is not None and not (_ids_of(record) & self._ids):
            return
        self.shown += 1
        for line in _told(seq, record):
            self._write(plain(line))


def find_related(lines: Iterable[bytes], wanted: str) -> frozenset[str] | None:
    """Return the ids that belong to what is wanted: of a task its runs and approvals; None for everything.

    Only the lines that name it are looked at. What is wrong with the file is left to the check.
    """
    if wanted == _ALL:
        return None
    wanted_id = wanted.rpartition("/")[2].lower()
    related = {wanted_id}
    for record in _records(lines):
        for name, columns in part_of(record, "rows").items():
            if name.startswith("delegations/") and columns and columns.get("canonical_id") in related:
                related.add(name.partition("/")[2])
        if _ids_of(record) & related:
            related |= set(map(str, part_of(record, "details").get("approvals") or ()))
    return frozenset(related)


def plain(text: str) -> str:
    """Return a text without what a terminal would obey."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def _records(lines: Iterable[bytes]) -> Iterable[dict[str, Any]]:
    for line in lines:
        try:
            row = json.loads(line)
            if row["type"] in ("record", "tail") and row["body"]:
                yield json.loads(base64.b64decode(row["body"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            continue


def part_of(record: dict[str, Any], name: str) -> dict[str, Any]:
    """Return an object within a record; an empty one where it has none."""
    part: dict[str, Any] | None = record.get(name)
    return part or {}


def _ids_of(record: dict[str, Any]) -> set[str]:
    """Return what a record is about: its resource, the task that it is a step of, and the rows that it states."""
    details = part_of(record, "details")
    about = str(details.get("resource", "")).partition("/")[2]
    ids = {name.split("/", 2)[1] for name in part_of(record, "rows") if "/" in name}
    return ids | {str(each) for each in (record.get("resource"), details.get("task"), about) if each}


def _told(seq: int | None, record: dict[str, Any]) -> Iterable[str]:
    place = f"link {seq}" if seq is not None else "not sealed"
    roles = ", ".join(record.get("roles") or [])
    who = f"{record.get('subject')} ({record.get('principal_type')}{': ' + roles if roles else ''})"
    what = f"{_word(record)}  {record.get('operation')}"
    yield f"{record.get('at')}  {what} by {who} through {record.get('door')}  [{place}]"
    for name, label in (
        ("resource", "about"),
        ("code", "code"),
        ("reason", "reason"),
        ("policy", "permissions"),
        ("input_sha256", "input sha256"),
        ("credential", "credential"),
        ("request_id", "request"),
    ):
        if record.get(name):
            yield f"    {label}: {record[name]}"
    for name, value in (part_of(record, "details")).items():
        words = ", ".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else value
        yield f"    {name.replace('_', ' ')}: {words}"
    for name, columns in (part_of(record, "rows")).items():
        if columns is None:
            yield f"    {name}: removed"
            continue
        said = "; ".join(f"{column} {value}" for column, value in columns.items() if value is not None)
        yield f"    {name}: {said}"


def _word(record: dict[str, Any]) -> str:
    ending = _ENDINGS.get(str(record.get("outcome")))
    if ending is not None:
        return ending
    for name, columns in (part_of(record, "rows")).items():
        if name.startswith("approval_decisions/") and name.endswith(f"/{record.get('subject')}") and columns:
            return _DECISIONS.get(str(columns.get("decision")), "DECIDED")
    return _WORDS.get(str(record.get("operation")), "DONE")
