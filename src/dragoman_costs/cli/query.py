"""`dragoman costs query`: a question in options, or whole in a file; a table, or JSON."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import rich_click as click
from rich.table import Table
from rich.text import Text

from dragoman.doors.cli.cells import cell
from dragoman.doors.cli.endings import WrongUsage
from dragoman.doors.cli.program import program
from dragoman.doors.cli.session import Asked, call, common_options
from dragoman.doors.cli.views import View
from dragoman_costs.query.catalogue import DatasetName, Grain

Json = dict[str, Any]
# The longer ones first: `>=` is no `>`.
_SIGNS: Final = {"!=": "ne", ">=": "gte", "<=": "lte", "~": "contains", ">": "gt", "<": "lt", "=": "eq"}
_NUMBERS: Final = ("amount", "count")


def query_command(summary: str) -> click.Command:
    """Return the command."""
    options: list[click.Parameter] = [
        click.RichOption(
            ["--file", "file"], type=click.Path(path_type=Path, dir_okay=False, allow_dash=True, exists=True),
            default=None, help="A whole query as JSON; - is standard input.",
        ),
        click.RichOption(
            ["--dataset"], type=click.Choice([one.value for one in DatasetName]), default=None,
            help="costs, resources, tags or rows [costs].",
        ),
        click.RichOption(["--by", "dimensions"], multiple=True, help="Group by this. May be repeated."),
        click.RichOption(["--measure", "measures"], multiple=True, help="Sum this [effective]. May be repeated."),
        click.RichOption(
            ["--where", "filters"], multiple=True, metavar="FIELD=VALUE",
            help="Only these: =, !=, >, >=, <, <=, or ~ for a part of a text. May be repeated.",
        ),
        click.RichOption(["--from", "start_date"], default=None, metavar="DAY", help="The first day."),
        click.RichOption(["--to", "end_date"], default=None, metavar="DAY", help="The last day, included."),
        click.RichOption(
            ["--grain"], type=click.Choice([one.value for one in Grain]), default=None, help="Also group by time."
        ),
        click.RichOption(
            ["--sort", "order_by"], multiple=True, metavar="FIELD",
            help="Sort by this, the largest first; with - before it the smallest. May be repeated.",
        ),
        click.RichOption(["--limit"], type=click.INT, default=None, help="How many rows at most [100]."),
        click.RichOption(["--currency"], default=None, help="Convert to this currency, by the tenant's rates."),
    ]  # fmt: skip
    return click.RichCommand(
        name="query",
        params=[*options, *common_options()],
        callback=_query,
        help=f"{summary}\n\nAll names: `{program()} costs schema`.",
        short_help=summary,
        epilog=f"Example: {program()} costs query --by service --grain month --from 2026-09-01 --where provider=AWS",
    )


def _query(file: Path | None, as_json: bool, as_tenant: str | None, **given: Any) -> None:  # noqa: FBT001
    asked = {name: value for name, value in given.items() if value}
    if file is not None and asked:
        raise WrongUsage("give a whole query with --file, or options; not both")
    query = _read(file) if file is not None else _made(asked)
    result = call("costs.query", query, Asked(as_json, as_tenant))["data"]
    view = View(as_json=as_json)
    if as_json:
        view.json(result)
    elif not result["rows"]:
        view.note("no such costs")
    else:
        view.out.print(_table(result["columns"], result["rows"]))
        if result["truncated"]:
            view.note(f"there are more: --limit shows up to 5000; answered from {result['source']}")


def _made(asked: Mapping[str, Any]) -> Json:
    query: Json = dict(asked)
    if "filters" in query:
        query["filters"] = [_filter(text) for text in query["filters"]]
    if "order_by" in query:
        query["order_by"] = [
            {"field": text.removeprefix("-"), "direction": "asc" if text.startswith("-") else "desc"}
            for text in query["order_by"]
        ]
    return query


def _filter(text: str) -> Json:
    places = [(text.find(sign), -len(sign), sign) for sign in _SIGNS if text.find(sign) > 0]
    if not places:
        raise WrongUsage(f"--where {text!r}: write it as FIELD=VALUE, such as provider=AWS or effective>=100")
    place, _, sign = min(places)
    value: Any = text[place + len(sign) :]
    field = text[:place].strip()
    if field in ("row_count", "line") and value.isdigit():
        value = int(value)
    return {"field": field, "op": _SIGNS[sign], "value": value}


def _read(file: Path) -> Any:
    try:
        with click.open_file(str(file)) as opened:
            return json.loads(opened.read())
    except ValueError as error:
        raise WrongUsage(f"{file} is not JSON: {error}") from None


def _table(columns: Sequence[Json], rows: Sequence[Json]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        right = column["type"] in _NUMBERS
        table.add_column(column["name"], justify="right" if right else "left", no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*(_cell(row[column["name"]]) for column in columns))
    return table


def _cell(value: Any) -> Text:
    return Text("none", style="dim") if value is None else cell(value)
