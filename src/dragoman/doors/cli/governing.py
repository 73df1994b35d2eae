"""`dragoman governance`: the projected commands, with verdicts that people like to read and scripts can test."""

import sys
from collections.abc import Callable, Iterable
from typing import Any

import rich_click as click

from dragoman.doors.cli.endings import FAILED
from dragoman.doors.cli.projection import project_noun
from dragoman.doors.cli.session import Asked, call
from dragoman.doors.cli.views import View

_COLOURS = {"block": "bold red", "warn": "yellow", "info": "dim"}
_BANDS = {"none": "green", "low": "green", "medium": "yellow", "high": "red", "critical": "bold red"}
_BAR = 20


def governance_commands(help_text: str) -> click.RichGroup:
    """The commands; `validate` and `drift-check` also say by their exit code what they found."""
    group = project_noun("governance", help_text)
    group.commands["validate"].callback = _shown("governance.validate", _validation)
    group.commands["drift-check"].callback = _shown("governance.drift_check", _drift)
    group.commands["policies"].callback = _shown("governance.policies", _policies)
    group.commands["replay"].callback = _shown("governance.replay", _replay)
    return group


def _shown(operation: str, show: Callable[[View, dict[str, Any]], None]) -> Callable[..., None]:
    """A callback that runs the operation, prints what it found and fails when that is not well."""

    def callback(as_json: bool, as_tenant: str | None, **given: Any) -> None:  # noqa: FBT001 - click calls it by name
        values = {name: value for name, value in given.items() if value is not None and value != ()}
        report = call(operation, values, Asked(as_json, as_tenant))["data"]
        view = View(as_json=as_json)
        if as_json:
            view.json(report)
        else:
            show(view, report)
        if not report.get("valid", True) or not report.get("passed", True):
            sys.exit(FAILED)

    return callback


def _validation(view: View, report: dict[str, Any]) -> None:
    _breaches(view, report["violations"])
    if report["valid"]:
        view.say(("VALID", "bold green"), f"  {len(report['policies'])} policies in force, none of them broken")
    else:
        view.say(("INVALID", "bold red"), f"  {_count(len(report['violations']), 'violation')}")
    _rest(view, report)


def _drift(view: View, report: dict[str, Any]) -> None:
    _breaches(view, report["violations"])
    for one in report["suppressed"]:
        told = f"{one['violation']['policy_id']}  {one['owner']} until {one['expires_at'][:10]}: {one['reason']}"
        view.say(("suppressed  ", "dim"), told)
    for rule in report["idle_rules"]:
        view.say(("idle        ", "dim"), f"{rule['policy_id']}  {rule['constraint']} had nothing to judge")
    score, band = report["drift_score"], report["band"]
    filled = round(score * _BAR)
    view.say(
        (f"{report['project']}  ", "bold"),
        ("█" * filled, _BANDS[band]),
        ("░" * (_BAR - filled), "dim"),
        (f"  {score:.2f} {band}", _BANDS[band]),
        f"  = {report['failed_weight']:g} of {report['applicable_weight']:g}, confidence {report['confidence']:.2f}",
    )
    if (since := report["since"]) is not None:
        news = f"{_count(len(since['new']), 'new violation')}, {len(since['fixed'])} fixed"
        view.say((f"since {since['at'][:16].replace('T', ' ')}  ", "dim"), f"{news} (was {since['drift_score']:.2f})")
    _rest(view, report)


def _policies(view: View, report: dict[str, Any]) -> None:
    for rule in report["rules"]:
        mandatory = " mandatory" if rule["mandatory"] else ""
        view.say(
            (f"{rule['severity']:<6}", _COLOURS[rule["severity"]]),
            (f"{rule['policy_id']}  ", "bold"),
            rule["constraint"],
            (f"  {rule['layer']}{mandatory}", "dim"),
        )
    for one in report["action_rules"]:
        view.say(("action", "cyan"), (f"{one['policy_id']}@{one['version']}  ", "bold"), _on_actions(one))
    view.say(f"{_count(len(report['rules']), 'rule')} in force")
    _rest(view, report)


def _on_actions(rule: dict[str, Any]) -> str:
    """What a policy says of actions, on one line."""
    if (reason := rule["unreadable"]) is not None:
        return f"cannot be read, so that everything is forbidden: {reason}"
    told: list[str] = []
    if (needs := rule["approvals"]) is not None:
        who = " or ".join(needs["roles"] or ("anyone who may decide",))
        people = ", people alone" if needs["people_only"] else ""
        which = "sensitive actions" if rule["built_in"] else ", ".join(needs["actions"])
        told.append(f"{which}: {_count(needs['quorum'], 'approval')} by {who}{people}")
    if rule["cedar"]:
        told.append(" ".join(rule["cedar"].split()))
    return "; ".join(told)


def _replay(view: View, report: dict[str, Any]) -> None:
    for flip in report["flips"]:
        change = "would be refused" if flip["was_valid"] else "would pass"
        where = flip["project"] or flip["kind"]
        view.say(
            (f"{flip['at'][:16].replace('T', ' ')}  ", "dim"),
            (change, "red" if flip["was_valid"] else "green"),
            f"  {where} of {flip['subject']}",
            (f"  {flip['decision_id']}", "dim"),
        )
        _breaches(view, flip["new"], indent="    ")
    kept = f", {report['not_replayable']} too large to replay" if report["not_replayable"] else ""
    view.say(f"{len(report['flips'])} of {_count(report['replayed'], 'decision')} would flip{kept}")
    _rest(view, report)


def _breaches(view: View, breaches: Iterable[dict[str, Any]], *, indent: str = "") -> None:
    for one in breaches:
        place: dict[str, Any] = one.get("location") or {}
        where = ":".join(str(place[part]) for part in ("file", "line") if place.get(part))
        view.say(
            indent,
            (f"{where}  " if where else "", "cyan"),
            (f"{one['severity']}  ", _COLOURS[one["severity"]]),
            one["message"],
            (f"  {one['policy_id']}", "dim"),
        )


def _rest(view: View, report: dict[str, Any]) -> None:
    for problem in report.get("problems", ()):
        view.say(("problem  ", "yellow"), f"{problem['policy_id']}: {problem['message']}")
    view.note(f"policies at {report['policy_version'][:12]}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
