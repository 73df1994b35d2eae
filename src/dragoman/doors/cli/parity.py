"""`dragoman parity run`: golden traces through every door of a running server, and where they differ."""

import os
import sys
from pathlib import Path
from typing import Any

import rich_click as click

from dragoman.doors.cli.cells import plain
from dragoman.doors.cli.endings import FAILED, Unreachable, WrongUsage
from dragoman.doors.cli.program import program
from dragoman.doors.cli.session import Asked, credential, server_url, settings_or_end
from dragoman.doors.cli.views import View
from dragoman.parity import Finding, Suite, TraceError, read_traces, run_suite
from dragoman.parity.doors import DOORS, Door, Target

_ACTORS = {"user": "human", "agent": "agent", "service": "service"}


def parity_commands(help_text: str) -> click.RichGroup:
    """The commands."""
    group = click.RichGroup(name="parity", help=help_text, no_args_is_help=True)
    group.add_command(
        click.RichCommand(
            name="run",
            params=[
                click.RichOption(["--url"], help="The server [DRAGOMAN_URL, else the one of this machine]."),
                click.RichOption(
                    ["--trace"], type=click.Path(path_type=Path), help="Your own trace, or a folder of them."
                ),
                click.RichOption(
                    ["--door", "only"], multiple=True, type=click.Choice(list(DOORS)), help="May be repeated."
                ),
                click.RichOption(["--tenant", "as_tenant"], metavar="SLUG", help="Act in this tenant [demo]."),
                click.RichOption(["--json", "as_json"], is_flag=True, help="Print JSON for programs."),
            ],
            callback=_run,
            help="Send golden traces through A2A (three bindings), MCP, REST and the shell, and compare.\n\n"
            "Needs credentials that may hand over tasks and read the audit trail. Ends with 1 where anything differs.",
            epilog=f"Example: {program()} parity run --url http://127.0.0.1:8080",
            short_help="Send golden traces through every door, and compare.",
        )
    )
    return group


def _run(*, url: str | None, trace: Path | None, only: tuple[str, ...], as_tenant: str | None, as_json: bool) -> None:
    import httpx  # noqa: PLC0415 - this command alone needs it

    settings, view = settings_or_end(), View(as_json=as_json)
    asked = Asked(as_json, as_tenant)
    address, token = (url or server_url(settings)).rstrip("/"), credential(settings, asked)
    target = Target(address, token, os.environ)
    try:
        traces = read_traces(trace)
        doors = _doors(view, target, only or tuple(DOORS))
        suite = _suite(target, doors)
        findings = [_told(view, finding) for finding in run_suite(suite, traces)]
    except TraceError as error:
        raise WrongUsage(str(error)) from None
    except httpx.HTTPError as error:
        raise Unreachable(f"cannot reach {address}: {error}") from None
    wrong = [finding for finding in findings if finding.wrong]
    if as_json:
        shown = [{"trace": one.trace, "door": one.door, "wrong": list(one.wrong)} for one in findings]
        view.json({"equal": not wrong, "findings": shown})
    else:
        style = "bold red" if wrong else "bold green"
        word = f"{len(wrong)} of {len(findings)} differ" if wrong else "the doors are alike"
        view.say((word, style), f"  {len(traces)} traces, {len(doors)} doors")
    if wrong:
        sys.exit(FAILED)


def _doors(view: View, target: Target, names: tuple[str, ...]) -> list[Door]:
    doors: list[Door] = []
    for name in names:
        try:
            doors.append(DOORS[name](target))
        except (ImportError, StopIteration) as error:
            why = f"{error.name} is not installed" if isinstance(error, ImportError) else "its card does not name it"
            view.note(f"{name} is left out: {why}")
    return doors


def _suite(target: Target, doors: list[Door]) -> Suite:
    rest = DOORS["rest"](target)
    me = rest.call("identity_show", {})
    if "error" in me:
        raise WrongUsage(f"the server does not take these credentials: {me['error']['message']}")

    def audit(task_id: str) -> list[dict[str, Any]]:
        # The newest are enough: what a trace did, it did just now.
        records = rest.call("audit_list", {"limit": 200}).get("items", [])
        return [one for one in reversed(records) if one.get("resource") == task_id]

    return Suite(doors, me["subject"], _ACTORS.get(str(me["type"]), "service"), audit)


def _told(view: View, finding: Finding) -> Finding:
    if not view.as_json:
        mark = ("✘ ", "bold red") if finding.wrong else ("✔ ", "green")
        view.say(mark, (f"{finding.door:<14}", "bold" if finding.wrong else ""), f"  {finding.trace}")
        for line in finding.wrong:
            view.say(("    ", ""), (plain(line), "red"))
    return finding
