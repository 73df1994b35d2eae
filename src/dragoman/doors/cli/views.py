"""How answers look in a terminal: tables for lists, two columns for one thing, JSON for programs."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from rich.console import Console
from rich.text import Text

from dragoman.doors.cli.cells import SECRETS, entry
from dragoman.doors.cli.endings import Ending, Refused
from dragoman.doors.cli.table import render_list

Json = dict[str, Any]
# Wider than any list: what goes into a pipe or a file is never cut.
_UNBOUNDED = 10_000


class View:
    """Prints to the terminal, or JSON when a program asked for it."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.out = _console(sys.stdout)
        self.err = _console(sys.stderr)

    def json(self, data: Any) -> None:
        """For programs."""
        print(json.dumps(data, indent=2, ensure_ascii=False))  # noqa: T201 - rich would wrap it

    def rows(self, noun: str, rows: Sequence[Mapping[str, Any]], *, more: str | None = None) -> None:
        """A list, and how to see more of it."""
        if not rows:
            self.note("nothing here")
            return
        for line in render_list(noun, rows, self.out.width):
            self.out.print(line)
        if more:
            self.note(f"more: {more}")

    def thing(self, data: Mapping[str, Any]) -> None:
        """One thing: names on the left, values on the right, each on its own line so that it can be copied whole.

        What it has several of follows as lists.
        """
        found = list(_entries(data))
        lists = [(name, value) for name, value in found if _is_list_of_things(value)]
        # What it is comes first, how often it changed last.
        entries = sorted(
            ((name, value) for name, value in found if not _is_list_of_things(value)),
            key=lambda item: item[0] == "version",
        )
        width = max((len(name) for name, _ in entries), default=0)
        for name, value in entries:
            label = name.replace("_", " ").ljust(width)
            self.out.print(Text.assemble((label, "dim"), "  ", entry(name, value)))
        for name, rows in lists:
            self.out.print(Text(f"\n{name.replace('_', ' ')}", style="dim"))
            for line in render_list(name, rows, self.out.width):
                self.out.print(line)
        if any(name.rpartition(".")[2] in SECRETS for name, _ in entries):
            self.err.print(Text("\nKeep what is highlighted now: it is shown this once.", style="yellow"))

    def say(self, *parts: str | tuple[str, str]) -> None:
        """A line, or parts of one with their styles."""
        self.out.print(Text.assemble(*parts))

    def line(self, text: str, style: str = "") -> None:
        """A line in one style."""
        self.out.print(Text(text, style=style))

    def note(self, text: str) -> None:
        """Something beside the answer: not for whoever reads the pipe."""
        self.err.print(Text(text, style="dim"))

    def ending(self, ending: Ending) -> None:
        """What went wrong: one line, the fields, and what finds it in the log."""
        if self.as_json:
            self.json({"error": ending.error})
            return
        first, *others = ending.message.splitlines()
        title = f"{ending.code}  " if isinstance(ending, Refused) else "Error  "
        self.err.print(Text.assemble((title, "bold red"), first))
        for line in others:
            self.err.print(Text(f"  {line}"))
        if isinstance(ending, Refused):
            for field, message in ending.fields:
                self.err.print(Text.assemble("  ", (field, "bold"), f"  {message}"))
            if ending.request_id:
                self.note(f"  request {ending.request_id}")


def _console(file: Any) -> Console:
    """Plain text unless a person is looking; cut to the width of their terminal, or to COLUMNS where it is set."""
    bounded = file.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return Console(file=file, highlight=False, soft_wrap=True, width=None if bounded else _UNBOUNDED)


def _is_list_of_things(value: Any) -> bool:
    """Check whether it has fields that a list can show in columns."""
    if not isinstance(value, list):
        return False
    things = cast("list[Any]", value)
    return all(
        isinstance(one, dict) and any(not isinstance(field, dict | list) for field in cast("Json", one).values())
        for one in things
    )


def _entries(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, dict) and value:
            yield from _entries(cast("Json", value), f"{prefix}{name}.")
        elif value is not None and value not in ({}, []):
            yield f"{prefix}{name}", value
