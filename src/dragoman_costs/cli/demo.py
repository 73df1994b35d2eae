"""`dragoman costs demo`: months of made-up spend, with what is found in it."""

import sys
from decimal import Decimal
from typing import Any

import rich_click as click

from dragoman.doors.cli.cells import plain
from dragoman.doors.cli.endings import FAILED
from dragoman.doors.cli.program import program
from dragoman.doors.cli.session import Asked, call, common_options, key_option
from dragoman.doors.cli.views import View
from dragoman_costs.cli.following import follow

Json = dict[str, Any]


def demo_command(summary: str) -> click.RichCommand:
    """Return the command."""
    return click.RichCommand(
        name="demo",
        params=[
            click.RichOption(["--months", "months"], type=click.IntRange(2, 12), default=6, help="Of 30 days each."),
            click.RichOption(["--seed", "seed"], type=int, default=7, help="Another seed makes another company."),
            click.RichOption(["--remove", "remove"], is_flag=True, help="Remove the demo and what was found in it."),
            key_option(),
            *common_options(),
        ],
        callback=_demo,
        help=f"{summary}\n\nAccounts of AWS, Azure, Google Cloud and a cluster, labelled synthetic, with anomalies and "
        "recommendations. Doing it again on the same day changes nothing.",
        epilog=f"Example: {program()} costs demo",
        short_help=summary,
    )  # fmt: skip


def _demo(
    *, months: int, seed: int, remove: bool, as_json: bool, as_tenant: str | None, idempotency_key: str | None
) -> None:
    asked, view = Asked(as_json, as_tenant), View(as_json=as_json)
    wanted = {"months": months, "seed": seed, "remove": remove}
    begun = call("costs.demo", wanted, Asked(as_json, as_tenant, idempotency_key))["data"]
    task = follow(view, asked, str(begun["task_id"]), verb="removing" if remove else "loading")
    if as_json:
        view.json(task)
    elif task["state"] != "succeeded":
        error = task["error"] or {"code": task["state"], "message": "the task did not succeed"}
        view.say((f"✘ {error['code']}  ", "bold red"), plain(str(error["message"])))
    elif remove:
        view.say(("✔ ", "green"), f"removed {task['result']['removed_accounts']} accounts of the demo")
    else:
        _show(view, asked, task["result"])
    if task["state"] != "succeeded":
        sys.exit(FAILED)


def _show(view: View, asked: Asked, loaded: Json) -> None:
    view.say(
        ("✔ ", "green"), (f"{loaded['rows']:,} rows", "bold"),
        f" in {loaded['accounts']} accounts, {loaded['first_day']} to {loaded['last_day']}", ("  synthetic", "yellow"),
    )  # fmt: skip
    view.say(f"  {loaded['anomalies']} anomalies, {loaded['recommendations']} recommendations")
    for total in call("recommendation.savings", {}, asked)["data"]["totals"]:
        view.say("  could save ", (f"{Decimal(total['found']):,.2f} {total['currency']}", "bold"), " a month")
    view.note(f"\nnext: {program()} recommendation list, {program()} anomaly list")
