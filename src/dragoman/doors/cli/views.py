"""How answers look in a terminal: tables for lists, two columns for one thing, JSON for programs."""

import json
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_STATE_COLOURS = {
    "active": "green", "done": "green", "ok": "green", "up": "green",
    "invited": "yellow", "suspended": "yellow", "refused": "yellow",
    "disabled": "red", "deleted": "red", "failed": "red", "down": "red",
}  # fmt: skip
# Columns that matter in a list; what else there is, `show` shows.
_LIST_COLUMNS = ("seq", "at", "id", "slug", "name", "email", "operation", "outcome", "subject", "role", "plan",
                 "status", "scopes", "resource", "hint", "expires_at", "created_at")  # fmt: skip
_DULL_COLUMNS = {"subject": "email", "created_at": "at"}


class View:
    """Prints to the terminal, or JSON when a program asked for it."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.out = Console(highlight=False)
        self.err = Console(stderr=True, highlight=False)

    def envelope(self, envelope: dict[str, Any]) -> None:
        """What an operation gave."""
        data = envelope["data"]
        if self.as_json:
            self.json(envelope if isinstance(data, list) else data)
        elif isinstance(data, list):
            self._rows(envelope["data"], envelope["meta"].get("nextCursor"))
        else:
            self.thing(data)

    def json(self, data: Any) -> None:
        """For programs."""
        print(json.dumps(data, indent=2, ensure_ascii=False))  # noqa: T201 - rich would wrap it

    def thing(self, data: dict[str, Any]) -> None:
        """One thing: names on the left, values on the right."""
        table = Table.grid(padding=(0, 2))
        for name, value in data.items():
            if value is not None:
                table.add_row(Text(name, style="dim"), _cell(name, value, whole=True))
        self.out.print(table)

    def problem(self, problem: dict[str, Any]) -> None:
        """What the server refused, field by field."""
        if self.as_json:
            error = {
                "code": problem.get("code"),
                "message": problem.get("detail"),
                "details": problem.get("details", {}),
            }
            if "errors" in problem:
                error["errors"] = problem["errors"]
            self.json({"error": error, "request_id": problem.get("requestId")})
            return
        self.err.print(Text.assemble((f"{problem.get('code')}  ", "bold red"), str(problem.get("detail"))))
        for item in problem.get("errors", []):
            self.err.print(Text.assemble("  ", (str(item["field"]), "bold"), f"  {item['message']}"))
        self.err.print(Text(f"request {problem.get('requestId')}", style="dim"))

    def complaint(self, message: str) -> None:
        """Something that went wrong on this side."""
        if self.as_json:
            self.json({"error": {"code": "CLIENT", "message": message}})
        else:
            self.err.print(Text(message, style="red"))

    def _rows(self, rows: list[dict[str, Any]], cursor: str | None) -> None:
        if not rows:
            self.out.print(Text("nothing here", style="dim"))
            return
        columns = [
            name for name in _LIST_COLUMNS
            if any(row.get(name) is not None for row in rows) and _DULL_COLUMNS.get(name) not in rows[0]
        ]  # fmt: skip
        table = Table(box=None, header_style="bold", pad_edge=False)
        for name in columns:
            table.add_column(name.removesuffix("_at"), no_wrap=name in ("id", "at"), overflow="fold")
        for row in rows:
            table.add_row(*(_cell(name, row.get(name)) for name in columns))
        self.out.print(table)
        if cursor:
            self.out.print(Text(f"more: --cursor {cursor}", style="dim"))


def _cell(name: str, value: Any, *, whole: bool = False) -> Text:
    if value is None:
        return Text("")
    if isinstance(value, dict | list):
        items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(value, list) and all(isinstance(item, str) for item in items):
            return Text(" ".join(items))
        return Text(json.dumps(value, indent=2 if whole else None, ensure_ascii=False))
    if name == "at" or name.endswith("_at"):
        return Text(_moment(str(value)))
    if isinstance(value, bool):
        return Text("yes" if value else "no", style="green" if value else "red")
    return Text(str(value), style=_STATE_COLOURS.get(str(value), ""))


def _moment(value: str) -> str:
    try:
        return datetime.fromisoformat(value).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return value
