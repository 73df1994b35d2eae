import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.machine import Machine

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Line:
    """One figure: what was measured, what it should be, and whether it is."""

    what: str
    measured: str
    ratio: float | None = None
    cpu_us: float | None = None
    typical_cpu_us: float | None = None
    beside_us: float | None = None
    target: str = ""
    met: bool | None = None


@dataclass(slots=True)
class Outcome:
    """What a row found; `figures` hold every turn, for the record."""

    title: str
    lines: list[Line] = field(default_factory=list[Line])
    figures: dict[str, Any] = field(default_factory=dict[str, Any])
    server_errors: int = 0
    note: str = ""


def show(console: Console, outcome: Outcome) -> None:
    """For people."""
    table = Table(title=outcome.title, title_justify="left", title_style="bold", expand=False)
    table.add_column("what")
    for name in ("measured", "ratio", "CPU us", "median", "beside us", "target"):
        table.add_column(name, justify="right")
    table.add_column("")
    for line in outcome.lines:
        table.add_row(
            line.what,
            line.measured,
            _number(line.ratio, ".2f"),
            _number(line.cpu_us, ".0f"),
            _number(line.typical_cpu_us, ".0f"),
            _number(line.beside_us, ".0f"),
            line.target,
            {True: "[green]pass[/]", False: "[yellow]short[/]", None: ""}[line.met],
        )
    if outcome.lines:
        console.print(table)
    else:
        console.print(f"[bold]{outcome.title}[/]")
    if outcome.note:
        console.print(f"  {outcome.note}")
    if outcome.server_errors:
        console.print(f"  [red]{outcome.server_errors} server errors[/]")


def keep(name: str, outcome: Outcome, machine: Machine) -> Path:
    """For the record: everything, as JSON."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    record = {
        "row": name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        "server_errors": outcome.server_errors,
        "note": outcome.note,
        "lines": [
            {name: getattr(line, name) for name in ("what", "measured", "ratio", "cpu_us", "target", "met")}
            for line in outcome.lines
        ],
        "figures": outcome.figures,
    }
    path.write_text(json.dumps(record, indent=2) + "\n")
    return path


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
