"""`dragoman costs import`: a file from this machine, sent, imported, and reported."""

import base64
import hashlib
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import rich_click as click
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from dragoman.doors.cli.cells import plain
from dragoman.doors.cli.endings import FAILED, Unreachable, WrongUsage
from dragoman.doors.cli.program import program
from dragoman.doors.cli.session import Asked, call, common_options
from dragoman.doors.cli.views import View
from dragoman_costs.cli.following import follow

Json = dict[str, Any]
_CHUNK: Final = 1_048_576
# A server that is started again meanwhile has kept the parts that arrived.
_TRIES, _PAUSE_S = 20, 1.0
_BAD_SHOWN: Final = 5


def import_command(summary: str) -> click.RichCommand:
    """Return the command."""
    return click.RichCommand(
        name="import",
        params=[
            click.RichArgument(["file"], type=click.Path(path_type=Path, dir_okay=False)),
            click.RichOption(
                ["--account", "account"],
                metavar="ID",
                help="The cloud account; else the one that the file is the bill of.",
            ),
            click.RichOption(
                ["--part", "part"], is_flag=True, help="Add it to the other files of its billing periods."
            ),
            *common_options(),
        ],
        callback=_import,
        help=f"{summary}\n\nFOCUS 1.0 to 1.3 as CSV, gzip or Parquet. The same file twice changes nothing; another "
        "file replaces the billing periods that it has.",
        epilog=f"Example: {program()} costs import focus.parquet",
        short_help=summary,
    )


def _import(*, file: Path, account: str | None, part: bool, as_json: bool, as_tenant: str | None) -> None:
    asked, view = Asked(as_json, as_tenant), View(as_json=as_json)
    upload_id = _upload(view, asked, file)
    if account is None:
        found = call("costs.find_account", {"upload_id": upload_id}, asked)["data"]
        account = str(found["account_id"])
        if not as_json:
            verb = "registered" if found["registered"] else "the bill of"
            view.note(f"{verb} {found['provider']} account {plain(found['identifier'])} ({account})")
    given = {"account_id": account, "upload_id": upload_id, "part": part}
    begun = call("cloud_account.import", given, asked)["data"]
    task = follow(view, asked, str(begun["task_id"]), verb="importing")
    report = call("costs.show_import", {"import_id": begun["import_id"]}, asked)["data"]
    if as_json:
        view.json(report)
    else:
        _show(view, asked, report, task)
    if task["state"] != "succeeded":
        sys.exit(FAILED)


def _upload(view: View, asked: Asked, file: Path) -> str:
    """Send the file in parts; return the upload."""
    try:
        size, digest = file.stat().st_size, hashlib.sha256()
        with file.open("rb") as content:
            while chunk := content.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise WrongUsage(f"cannot read {file}: {error.strerror}") from None
    if not size:
        raise WrongUsage(f"{file} is empty")
    new = {"file_name": file.name, "size_bytes": size, "sha256": digest.hexdigest()}
    upload = call("costs.begin_upload", new, asked)["data"]
    with Progress(
        TextColumn("sending {task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
        TimeRemainingColumn(), console=view.err, transient=True, disable=view.as_json,
    ) as progress, file.open("rb") as content:  # fmt: skip
        bar = progress.add_task(plain(file.name), total=size)
        for number in range(1, upload["parts"] + 1):
            part = content.read(upload["part_bytes"])
            sent = {"upload_id": upload["id"], "number": number, "content": base64.b64encode(part).decode()}
            _send(asked, sent)
            progress.advance(bar, len(part))
    return str(upload["id"])


def _send(asked: Asked, part: Json) -> None:
    """Send a part, also to a server that is away for a moment."""
    for left in reversed(range(_TRIES)):
        try:
            call("costs.add_upload_part", part, asked)
        except Unreachable:
            if not left:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def _show(view: View, asked: Asked, report: Json, task: Json) -> None:
    """Print the report for a person."""
    state = report["state"]
    mark, style = {"done": ("✔", "green"), "unchanged": ("=", "cyan")}.get(state, ("✘", "red"))
    said = "is shown already, and nothing changed" if state == "unchanged" else state
    view.say((f"{mark} ", style), (plain(report["file_name"]), "bold"), f"  {said}")
    if (error := report["error"] or task["error"]) is not None:
        view.say((f"  {error['code']}  ", "bold red"), plain(str(error["message"])))
    if report["periods"] and state in ("done", "unchanged"):
        _table(view, "period", ["rows"], [
            (period["period"][:7] + ("  unchanged" if period["unchanged"] and state == "done" else ""),
             [f"{period['row_count']:,}"])
            for period in report["periods"]
        ])  # fmt: skip
    if report["totals"]:
        names = ("billed", "effective", "list", "contracted")
        _table(view, "currency", ["rows", *names], [
            (total["currency"], [f"{total['row_count']:,}", *(_money(total[name]) for name in names)])
            for total in report["totals"]
        ])  # fmt: skip
    if report["bad_count"]:
        _show_bad(view, asked, report)
    if state in ("done", "unchanged"):
        view.note(f"\nreport: {program()} costs show-import {report['id']}")


def _show_bad(view: View, asked: Asked, report: Json) -> None:
    view.say(
        (f"\n{report['bad_count']:,} {'row was' if report['bad_count'] == 1 else 'rows were'} set aside", "yellow")
    )
    bad = call("costs.bad_rows", {"import_id": report["id"], "limit": _BAD_SHOWN}, asked)["data"]
    for one in bad:
        column = f"{one['column']}: " if one["column"] else ""
        value = f" ({plain(one['value'])[:60]})" if one["value"] else ""
        view.say((f"  line {one['line']:,}  ", "dim"), f"{column}{one['reason']}{value}")
    if report["bad_count"] > len(bad):
        view.note(f"  more: {program()} costs bad-rows {report['id']}")


def _table(view: View, first: str, others: list[str], rows: list[tuple[str, list[str]]]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(Text(f"  {first}"))
    for name in others:
        table.add_column(name, justify="right")
    for name, cells in rows:
        table.add_row(Text(f"  {name}"), *cells)
    view.out.print()
    view.out.print(table)


def _money(amount: str) -> str:
    """Return an amount as it is, with its thousands apart."""
    return f"{Decimal(amount):,f}"
