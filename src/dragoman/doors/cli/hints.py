"""What to do next, after the commands whose answer is only half of the story."""

from collections.abc import Callable, Mapping
from typing import Any

from rich.text import Text

from dragoman.doors.cli.cells import moment
from dragoman.doors.cli.program import program, typed_program

Answer = Mapping[str, Any]


def next_steps(operation: str, given: Answer, data: Answer, url: str) -> list[Text]:
    """Lines to print below the answer of an operation; none for most. `url` is the server that answered."""
    steps = _STEPS.get(operation)
    return steps(given, data, url) if steps else []


def _after_invite(_: Answer, data: Answer, url: str) -> list[Text]:
    until = moment(str(data["invitation_expires_at"]), "%Y-%m-%d %H:%M UTC")
    return [
        Text(f"Hand the invitation to {data['name']}; it is good until {until}:"),
        _command(f"DRAGOMAN_URL={url} DRAGOMAN_TOKEN={data['invitation']} {program()} user accept"),
    ]


def _after_link(_: Answer, data: Answer, url: str) -> list[Text]:
    if not data.get("secret"):
        return []
    until = moment(str(data["expires_at"]), "%Y-%m-%d %H:%M UTC")
    return [
        Text(f"Hand this to {data['name']} <{data['email']}> alone; it can be answered once, until {until}:"),
        _command(f"{url}/sign#{data['secret']}"),
    ]


def _after_accept(_: Answer, data: Answer, __: str) -> list[Text]:
    if not data.get("token"):
        return [Text("You are in. Sign in with your organisation's issuer from now on.")]
    return [Text("You are in:"), _command(f"export DRAGOMAN_TOKEN={data['token']}")]


def _after_create_key(_: Answer, data: Answer, __: str) -> list[Text]:
    return [
        Text("A program sends it as a bearer token or as X-API-Key; this one takes it so:"),
        _command(f"DRAGOMAN_TOKEN={data['secret']} {typed_program()} whoami"),
    ]


def _after_rotate(given: Answer, data: Answer, _: str) -> list[Text]:
    old, grace_s = given["key_id"], int(given.get("grace_s", 0))
    if grace_s:
        return [
            Text(f"The old key works for {grace_s} s more: put the new secret in its place. To end it now:"),
            _command(f"{typed_program()} key revoke {old}"),
        ]
    return [
        Text("The old key no longer works: put the new secret in its place."),
        Text("To let both work for an hour next time:"),
        _command(f"{typed_program()} key rotate {data['id']} --grace-s 3600"),
    ]


def _command(line: str) -> Text:
    return Text(f"  {line}", style="cyan")


_STEPS: Mapping[str, Callable[[Answer, Answer, str], list[Text]]] = {
    "user.invite": _after_invite,
    "link.create": _after_link,
    "user.accept": _after_accept,
    "key.create": _after_create_key,
    "key.rotate": _after_rotate,
}
