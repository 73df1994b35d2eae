"""Follows a task in the terminal: how far it is, and what came of it."""

import time
from collections.abc import Iterator
from typing import Any, Final

from rich.progress import BarColumn, Progress, TextColumn

from dragoman.doors.cli.cells import plain
from dragoman.doors.cli.session import Asked, call
from dragoman.doors.cli.views import View

Json = dict[str, Any]
_OVER: Final = frozenset({"succeeded", "failed", "rejected", "cancelled", "dead_letter"})
_LOOK_S: Final = 0.3


def follow(view: View, asked: Asked, task_id: str, *, verb: str) -> Json:
    """Show how far the task is until it is over; return it."""
    with Progress(
        TextColumn(verb), BarColumn(), TextColumn("{task.description}"), console=view.err, transient=True,
        disable=view.as_json,
    ) as progress:  # fmt: skip
        bar = progress.add_task("waiting", total=100)
        for body in _events(asked, task_id):
            if body["kind"] == "progress":
                progress.update(bar, completed=body.get("percent") or 0, description=plain(body["text"]))
    return call("task.status", {"task_id": task_id}, asked)["data"]


def _events(asked: Asked, task_id: str) -> Iterator[Json]:
    after = 0
    while True:
        page = call("task.events", {"task_id": task_id, "after": after}, asked)["data"]
        yield from (event["body"] for event in page["events"])
        after = page["next_after"]
        if not page["events"]:
            if page["state"] in _OVER or page["state"] == "input_required":
                return
            time.sleep(_LOOK_S)
