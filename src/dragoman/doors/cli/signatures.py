"""`dragoman signature`: the projected commands, a verdict on any PDF for scripts, and a request that reads well."""

import sys
from pathlib import Path
from typing import Any

import rich_click as click

from dragoman.doors.cli.endings import FAILED, WrongUsage
from dragoman.doors.cli.program import program
from dragoman.doors.cli.projection import project_noun
from dragoman.doors.cli.session import Asked, call
from dragoman.doors.cli.views import View
from dragoman.doors.cli.whole_file import encoded

_VOUCHED = {"this_tenant": "vouched for here", "other_tenant": "vouched for by another tenant of this server"}
_COLOURS = {"valid": "bold green", "tampered": "bold red", "modified": "bold red"}


def signature_commands(help_text: str) -> click.RichGroup:
    """Every operation of signatures as a command."""
    group = project_noun("signature", help_text)
    verify = group.commands["verify"]
    verify.params = [
        click.RichArgument(["file"], required=False, type=click.Path(path_type=Path, dir_okay=False)),
        *(param for param in verify.params if param.name != "content"),
    ]
    verify.callback = _verify
    verify.epilog = f"Example: {program()} signature verify contract.pdf || echo 'do not rely on it'"
    group.commands["show"].callback = _show
    return group


def _verify(file: Path | None, as_json: bool, as_tenant: str | None, **given: Any) -> None:  # noqa: FBT001
    """The verdict, which is also the exit code."""
    wanted = {name: value for name, value in given.items() if value is not None}
    if (file is None) == ("document_id" not in wanted):
        raise WrongUsage("give a FILE, or a document with --document-id")
    if file is not None:
        wanted["content"] = encoded(file)
    report = call("signature.verify", wanted, Asked(as_json, as_tenant))["data"]
    view = View(as_json=as_json)
    if as_json:
        view.json(report)
    else:
        _tell(view, report)
    if not report["valid"]:
        sys.exit(FAILED)


def _tell(view: View, report: dict[str, Any]) -> None:
    verdict = report["verdict"]
    view.say((verdict.upper(), _COLOURS.get(verdict, "bold yellow")), f"  {report['explanation']}")
    for one in report["signatures"]:
        who = one["signer"] or "somebody"
        address = f" <{one['email']}>" if one["email"] else ""
        state = "intact" if one["intact"] else "broken"
        vouched = _VOUCHED.get(one["authority"], f"vouched for by {one['issuer'] or 'nobody'}")
        if one["verified_by"] == "link":
            vouched += ", name and address by one-time link"
        when = f", {one['signed_at']}" if one["signed_at"] else ""
        view.say(f"  {who}{address}: {state}, {vouched}{when}")
        if one["problem"]:
            view.say((f"    {one['problem']}", "dim"))


def _show(signature_id: str, as_json: bool, as_tenant: str | None) -> None:  # noqa: FBT001 - click calls it by name
    found = call("signature.get", {"signature_id": signature_id}, Asked(as_json, as_tenant))["data"]
    view = View(as_json=as_json)
    if as_json:
        view.json(found)
        return
    signers, history, evidence = found.pop("signers"), found.pop("history"), found.pop("evidence")
    view.thing({**found, "evidence": f"{len(evidence)} signed records"})
    view.out.print()
    view.rows("signature_signer", signers)
    view.out.print()
    view.rows("signature_history", history)
