"""`dragoman costs dashboard`: the page in a terminal, with small charts."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from itertools import zip_longest
from typing import Any, Final

import rich_click as click
from rich.text import Text

from dragoman.doors.cli.projection import project_operation
from dragoman.doors.cli.session import Asked, binding_of, call
from dragoman.doors.cli.views import View
from dragoman_costs.cli.charts import amount, bar, change, cut, percent, spark

Json = Mapping[str, Any]
_NARROW, _WIDEST = 60, 132
# From here on there is room for two lists beside each other.
_TWO_COLUMNS: Final = 110
_GAP: Final = 4
_MOST: Final = 8
_STATES: Final = {"ok": "green", "at_risk": "yellow", "exceeded": "red"}


def dashboard_command(summary: str) -> click.Command:
    """Return the command: the options of the operation, and a page of its own."""
    command = project_operation(binding_of("costs.dashboard"))
    command.short_help = summary
    command.callback = _show
    return command


def _show(as_json: bool, as_tenant: str | None, **given: Any) -> None:  # noqa: FBT001 - click calls it by name
    asked = {name: value for name, value in given.items() if value is not None}
    page = call("costs.dashboard", asked, Asked(as_json, as_tenant))["data"]
    view = View(as_json=as_json)
    if as_json:
        view.json(page)
        return
    if page["period"] is None:
        view.note("No costs yet: import a billing export with `dragoman costs import`, or try `dragoman costs demo`.")
        return
    width = max(_NARROW, min(view.out.width, _WIDEST))
    for line in _page(page, width):
        line.rstrip()
        line.truncate(view.out.width, overflow="ellipsis")
        view.out.print(line)


def _page(page: Json, width: int) -> Iterator[Text]:
    period, previous = page["period"], page["previous"]
    made_up = "   made up by the demo" if page["synthetic"] else ""
    yield Text.assemble(("Costs  ", "bold"), _span(period), (f"   beside {_span(previous)}{made_up}", "dim"))
    for one in page["currencies"]:
        yield Text()
        yield from _totals(one, width)
        yield from _trend(one, page["granularity"], width)
        yield from _lists(one, width)
    if page["budgets"]:
        yield Text()
        yield from _budgets(page["budgets"], width)
    if page["anomalies"] and page["anomalies"]["items"]:
        yield Text()
        yield from _anomalies(page["anomalies"]["items"], width)
    if page["savings"] and page["savings"]["items"]:
        yield Text()
        yield from _savings(page["savings"], width)


def _totals(one: Json, width: int) -> Iterator[Text]:
    head = Text.assemble((f"{one['currency']} {amount(one['total'])}", "bold"), "  ")
    head.append_text(change(one["change_percent"]))
    head.append(f"   before {amount(one['previous'])}", style="dim")
    yield head
    facts = [f"untagged {amount(one['untagged'])} ({percent(one['untagged_percent'])})"]
    if (month := one["month"]) is not None:
        facts.append(f"month {amount(month['total'])} ({amount(month['low'])} to {amount(month['high'])})")
    if (ahead := one["next_30_days"]) is not None:
        facts.append(f"next 30 days {amount(ahead['total'])}")
    line = ""
    for fact in facts:
        if line and len(line) + len(fact) + _GAP > width:
            yield Text(line, style="dim")
            line = ""
        line += ("   " if line else "") + fact
    yield Text(line, style="dim")


def _trend(one: Json, granularity: str, width: int) -> Iterator[Text]:
    points: Sequence[Json] = one["trend"]
    if len(points) < 2:
        return
    line = spark([Decimal(point["total"]) for point in points], width)
    most = max(points, key=lambda point: Decimal(point["total"]))
    first, last = _short(points[0]["day"]), _short(points[-1]["day"])
    yield Text()
    yield Text(line, style="cyan")
    middle = f"most on {_short(most['day'])}: {amount(most['total'])} a {granularity}"
    room = max(len(line), len(first) + len(last) + len(middle) + 4)
    yield Text(f"{first}{middle.center(room - len(first) - len(last))}{last}", style="dim")


def _lists(one: Json, width: int) -> Iterator[Text]:
    blocks = [("Services", one["by_service"]), ("Accounts", one["by_account"]), ("Providers", one["by_provider"]),
              ("Moved most", one["movers"])]  # fmt: skip
    shown = [(title, items[:_MOST]) for title, items in blocks if items]
    if width < _TWO_COLUMNS:
        for title, items in shown:
            yield Text()
            yield from _shares(title, items, width)
        return
    half = (width - _GAP) // 2
    columns = [list(_shares(title, items, half)) for title, items in shown]
    for left, right in zip_longest(columns[::2], columns[1::2], fillvalue=list[Text]()):
        yield Text()
        for line, beside in zip_longest(left, right):
            whole = line or Text()
            whole.pad_right(half + _GAP - whole.cell_len)
            yield whole.append_text(beside) if beside else whole


def _shares(title: str, items: Sequence[Json], width: int) -> Iterator[Text]:
    by_change = title == "Moved most"
    amounts = [_signed(item["change"]) if by_change else amount(item["total"]) for item in items]
    sums = max(map(len, amounts))
    room = width - sums - 16
    name_width = max(12, min(36, room * 3 // 5))
    bar_width = max(4, room - name_width - 2)
    largest = max(abs(Decimal(item["change" if by_change else "total"])) for item in items) or Decimal(1)
    yield Text(title, style="bold")
    for item, shown in zip(items, amounts, strict=True):
        value = Decimal(item["change" if by_change else "total"])
        style = ("red" if value > 0 else "green") if by_change else "cyan"
        line = Text(f"{cut(item['name'], name_width)} ")
        line.append_text(bar(float(abs(value) / largest), bar_width, style=style))
        line.append(f" {shown:>{sums}}")
        line.append(f" {percent(item['share_percent']):>5}  ", style="dim")
        yield line.append_text(change(item["change_percent"]))


def _budgets(budgets: Sequence[Json], width: int) -> Iterator[Text]:
    yield Text("Budgets", style="bold")
    name_width = max(12, min(30, width // 4))
    for one in budgets[:_MOST]:
        state = one["state"]
        words = f" {amount(state['actual'])} of {amount(one['amount'])} {one['currency']} a {one['period']}"
        if state["forecast_percent"] is not None:
            words += f", expected {percent(state['forecast_percent'])}"
        bar_width = max(8, min(30, width - name_width - len(words) - 9))
        style = _STATES[state["status"]]
        line = Text(f"{cut(one['name'], name_width)} ")
        line.append_text(bar(state["actual_percent"] / 100, bar_width, style=style))
        line.append(f" {percent(state['actual_percent']):>6}", style=style)
        yield line.append(words, style="dim")


def _anomalies(items: Sequence[Json], width: int) -> Iterator[Text]:
    yield Text("Anomalies", style="bold")
    for one in items:
        excess = _signed(one["excess"])
        line = Text(f"{_short(one['day']):<7}", style="dim")
        line.append(cut(one["title"], width - 7 - len(excess) - 5), style="default")
        line.append(f" {excess}", style="red" if Decimal(one["excess"]) > 0 else "green")
        yield line.append(f" {one['currency']}", style="dim")


def _savings(savings: Json, width: int) -> Iterator[Text]:
    heading = Text("Savings a month", style="bold")
    for one in savings["totals"]:
        words = f"   {one['currency']} {amount(one['found'])} found, {amount(one['approved'])} approved"
        heading.append(f"{words}, {amount(one['realised'])} realised", style="dim")
    yield heading
    for one in savings["items"]:
        monthly = amount(one["saving_monthly"])
        words = f" {monthly} {one['currency']}"
        line = Text(cut(one["title"], width - len(words) - 10))
        line.append(words, style="green")
        yield line.append(f" {one['confidence']}", style="dim")


def _signed(text: str) -> str:
    return ("+" if Decimal(text) > 0 else "") + amount(text)


def _span(span: Json) -> str:
    return f"{span['start_date']} to {span['end_date']}"


def _short(day: str) -> str:
    found = date.fromisoformat(day)
    return f"{found.day} {found:%b}"
