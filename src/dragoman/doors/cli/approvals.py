"""`dragoman approval`: who must say yes to what, under which policy and until when; and saying it."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import rich_click as click

from dragoman.doors.cli.cells import for_whom, moment, plain
from dragoman.doors.cli.endings import WrongUsage
from dragoman.doors.cli.program import program
from dragoman.doors.cli.projection import project_noun
from dragoman.doors.cli.session import Asked, binding_of, call, common_options, connect, key_option
from dragoman.doors.cli.views import View

Json = dict[str, Any]
_STYLES = {"pending": "bold yellow", "approved": "bold green", "consumed": "green", "denied": "bold red"}
_MARKS = {"approve": ("yes  ", "green"), "deny": ("no   ", "red")}
_VERIFIED_BY = {"user_record": "the user record", "link": "a one-time link", "provider": "the provider"}
_SHORT = 12
_LEAST_DIGEST = 8


def approval_commands(help_text: str) -> click.RichGroup:
    """All operations; `approve` and `deny` are the two ways to decide."""
    group = project_noun("approval", help_text)
    group.commands["show"].callback = _answering("approval.show")
    group.commands["withdraw"].callback = _answering("approval.withdraw")
    group.commands["decide"].callback = _answering("approval.decide")
    group.commands["list"].callback = _list
    _take_envelopes(group.commands["request"])
    group.add_command(_deciding("approve", "Say yes, to exactly what `show` shows."))
    group.add_command(_deciding("deny", "Say no; one no is enough."))
    return group


def _answering(operation: str) -> Callable[..., None]:
    def callback(
        as_json: bool,  # noqa: FBT001 - click calls it by name
        as_tenant: str | None,
        idempotency_key: str | None = None,
        **given: Any,
    ) -> None:
        _print(call(operation, _given(given), Asked(as_json, as_tenant, idempotency_key))["data"], as_json=as_json)

    return callback


def _take_envelopes(request: click.Command) -> None:
    """Let what is to be approved be read from the envelope that will be submitted."""
    for param in request.params:
        param.required = False
    request.params.insert(
        0, click.RichOption(["--file"], type=click.Path(path_type=Path), help="Ask for what this envelope will do.")
    )
    request.epilog = f"Example: {program()} approval request --file envelope.json --reason 'terms agreed'"

    def callback(
        file: Path | None,
        as_json: bool,  # noqa: FBT001 - click calls it by name
        as_tenant: str | None,
        idempotency_key: str | None,
        **given: Any,
    ) -> None:
        values = {**(_from_envelope(file) if file is not None else {}), **_given(given)}
        approval = call("approval.request", values, Asked(as_json, as_tenant, idempotency_key))["data"]
        _print(approval, as_json=as_json)

    request.callback = callback


def _from_envelope(file: Path) -> Json:
    try:
        read: object = json.loads(file.read_text(encoding="utf-8"))
        envelope = cast("Json", read)
        actor = envelope.get("actor", {})
        found = {
            "action": envelope["action"],
            "resource": envelope["resource"],
            "matter_id": envelope["matter"]["id"],
            "input": envelope.get("input", {}),
            "actor": actor.get("id"),
            "on_behalf_of": actor.get("on_behalf_of"),
        }
    except (OSError, ValueError) as error:
        raise WrongUsage(f"cannot read {file}: {error}") from None
    except (KeyError, TypeError, AttributeError):
        raise WrongUsage(f"{file} is no envelope: it needs action, resource and matter") from None
    return {name: value for name, value in found.items() if value is not None}


def _deciding(decision: str, help_text: str) -> click.RichCommand:
    def callback(
        approval_id: str,
        reason: str | None,
        digest: str | None,
        as_json: bool,  # noqa: FBT001 - click calls it by name
        as_tenant: str | None,
        idempotency_key: str | None,
    ) -> None:
        client = connect(Asked(as_json, as_tenant))
        seen = client.call(binding_of("approval.show"), {"approval_id": approval_id})["data"]
        if digest is not None and not (len(digest) >= _LEAST_DIGEST and seen["digest"].startswith(digest.lower())):
            raise WrongUsage(f"this approval is for {seen['digest']}\nNothing was decided: look at it again.")
        given = {"approval_id": approval_id, "decision": decision, "reason": reason, "digest": seen["digest"]}
        decided = client.call(binding_of("approval.decide"), _given(given), idempotency_key=idempotency_key)["data"]
        _print(decided, as_json=as_json)

    return click.RichCommand(
        name=decision,
        params=[
            click.RichArgument(["approval_id"], required=True),
            click.RichOption(["--reason"], help="Why; it is kept with the decision."),
            click.RichOption(["--digest"], help="What you saw, or its first characters: anything else is not decided."),
            key_option(),
            *common_options(),
        ],
        callback=callback,
        help=help_text,
        short_help=help_text,
        epilog=f"Example: {program()} approval {decision} 01890a5d-ac96-774b-bcce-b302099a8057 --reason 'as agreed'",
    )


def _list(as_json: bool, as_tenant: str | None, **given: Any) -> None:  # noqa: FBT001 - click calls it by name
    answer = call("approval.list", _given(given), Asked(as_json, as_tenant))
    items, cursor = cast("list[Json]", answer["data"]), answer["meta"].get("nextCursor")
    view = View(as_json=as_json)
    if as_json:
        view.json({"items": items, "next_cursor": cursor})
        return
    rows = [
        {**one, "target": _target(one["resource"]), "yes": f"{one['approved']} of {one['quorum']}"} for one in items
    ]
    view.rows("approval", rows, more=f"--cursor {cursor}" if cursor else None)


def _print(approval: Json, *, as_json: bool) -> None:
    view = View(as_json=as_json)
    if as_json:
        view.json(approval)
        return
    state = approval["state"]
    view.say(
        (state.upper(), _STYLES.get(state, "dim")),
        ("  " + approval["action"], "bold"),
        f"  {_target(approval['resource'])}",
        (f"  in {plain(approval['matter_id'])}", "dim"),
    )
    _line(view, "id", approval["approval_id"])
    _line(view, "digest", approval["digest"][:_SHORT] + "…" + approval["digest"][-4:])
    asked = f"by {approval['requested_by']} at {moment(approval['created_at'], '%Y-%m-%d %H:%M UTC')}"
    _line(view, "asked", asked + (f": {approval['reason']}" if approval["reason"] else ""))
    _print_actors(view, approval)
    _line(view, "needs", _needs(approval))
    _line(view, "policy", ", ".join(f"{one['id']}@{one['version']}" for one in approval["policies"]))
    _line(view, "expires", f"{moment(approval['expires_at'], '%Y-%m-%d %H:%M UTC')}{_left(approval)}")
    if approval["consumed_by"]:
        _line(view, "used by", approval["consumed_by"])
    if approval["closed_because"]:
        _line(view, "because", approval["closed_because"])
    if approval["input"]:
        for place, line in enumerate(json.dumps(approval["input"], ensure_ascii=False, indent=2).splitlines()):
            _line(view, "" if place else "input", line)
    _print_bound(view, approval)
    for one in approval["decisions"]:
        told = f"{one['by']} ({one['role']}) at {moment(one['at'], '%Y-%m-%d %H:%M UTC')}"
        view.say(_MARKS[one["decision"]], plain(told + (f": {one['reason']}" if one["reason"] else "")))
    if state == "pending":
        view.note(f"{program()} approval approve {approval['approval_id']}")


def _print_actors(view: View, approval: Mapping[str, Any]) -> None:
    """Say who acts for whom; a name that nobody checked is a claim."""
    for name, field in (("actor", "actor"), ("for", "on_behalf_of")):
        if (shown := for_whom(approval, field)) is not None:
            _line(view, name, shown)


def _print_bound(view: View, approval: Mapping[str, Any]) -> None:
    """Show the resource as it was bound: who signs, and the document with what changed in it."""
    shows: Json = approval["shows"]
    if (signature := shows.get("signature")) is not None:
        _line(view, "sends", f"by {signature['provider']}{', sealed' if signature['seal'] else ''}")
        for one in signature["signers"]:
            subject = f", subject {one['subject']}" if one.get("subject") else ""
            verified = f", verified by {_VERIFIED_BY[one['verified_by']]}" if one.get("verified_by") else ""
            _line(view, one["role"], f"{one['name']} <{one['email']}>{subject}{verified}")
    if (document := shows.get("document")) is None:
        return
    _line(view, "document", f"{document['title']}, version {document['version']} of {document['newest_version']}")
    _line(view, "sha256", document["sha256"])
    if document["fields"]:
        _lines(view, "fields", json.dumps(document["fields"], ensure_ascii=False, indent=2))
    if document["changes"] is not None:
        _lines(view, "changes", document["changes"] or f"none since version {document['compared_with']}")
    elif document["text"] is not None:
        _lines(view, "text", document["text"])
    else:
        _line(view, "text", f"cannot be shown: read {document['uri']}")
    if document["cut"]:
        _line(view, "", f"cut: read all of it with {program()} document content {document['id']}")


def _lines(view: View, name: str, text: str) -> None:
    for place, line in enumerate(text.splitlines()):
        _line(view, "" if place else name, line)


def _line(view: View, name: str, text: str) -> None:
    view.say((name.ljust(9), "dim"), plain(text))


def _needs(approval: Mapping[str, Any]) -> str:
    count = f"{approval['approved']} of {approval['quorum']} approvals"
    who = f"{'people' if approval['people_only'] else 'anyone'} in the role {' or '.join(approval['roles'])}"
    return f"{count}, by {who}, not by {' or '.join(approval['parties'])}"


def _target(resource: Mapping[str, Any]) -> str:
    version = f"@{resource['version']}" if resource.get("version") else ""
    return plain(f"{resource['type']} {resource['id']}{version}")


def _left(approval: Mapping[str, Any]) -> str:
    seconds = int((datetime.fromisoformat(approval["expires_at"]) - datetime.now(UTC)).total_seconds())
    if approval["state"] not in ("pending", "approved") or seconds <= 0:
        return ""
    days, hours, minutes = seconds // 86_400, seconds // 3_600 % 24, seconds // 60 % 60
    return f" (in {days} d {hours} h)" if days else f" (in {hours} h {minutes} min)"


def _given(options: Mapping[str, Any]) -> Json:
    """The options that were given; several of one kind are a list."""
    return {
        name: list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
        for name, value in options.items()
        if value is not None and value != ()
    }
