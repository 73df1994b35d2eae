"""`dragoman task`: the projected commands, with a story to look at, and watching while it happens."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import rich_click as click

from dragoman.doors.cli.cells import for_whom, moment, plain
from dragoman.doors.cli.endings import FAILED, WrongUsage
from dragoman.doors.cli.projection import project_noun
from dragoman.doors.cli.session import Asked, binding_of, call, common_options, connect
from dragoman.doors.cli.views import View

Json = dict[str, Any]
_COLOURS: Final = {
    "requested": "dim", "validated": "dim", "queued": "cyan", "in_progress": "blue", "input_required": "yellow",
    "succeeded": "green", "failed": "red", "rejected": "red", "cancelled": "magenta", "dead_letter": "bold red",
}  # fmt: skip
_MARKS: Final = {
    "succeeded": "✔", "failed": "✘", "rejected": "✘", "dead_letter": "✘", "cancelled": "■", "input_required": "?",
    "in_progress": "▶",
}  # fmt: skip
_OVER: Final = frozenset({"succeeded", "failed", "rejected", "cancelled", "dead_letter"})
_LOOK_S: Final = 0.3


def task_commands(help_text: str) -> click.RichGroup:
    """The commands; those that show one task show how it came where it is."""
    group = project_noun("task", help_text)
    for name, operation in (("status", "task.status"), ("retry", "task.retry"), ("cancel", "task.cancel")):
        group.commands[name].callback = _shown(operation)
    for name, operation in (("transition", "task.transition"), ("provide-input", "task.provide_input")):
        group.commands[name].callback = _shown(operation)
    submit = group.commands["submit"]
    submit.params = [
        click.RichOption(["--file", "file"], type=click.Path(), metavar="FILE", help="The envelope; - reads a pipe."),
        click.RichOption(["--envelope", "envelope"], metavar="JSON", help="The envelope, in place of a file."),
        click.RichOption(["--watch", "watch"], is_flag=True, help="Stay until it rests; fails unless it succeeds."),
        *common_options(),
    ]
    submit.callback = _submit
    submit.epilog = "Example: dragoman task submit --file envelope.json --watch"
    group.add_command(
        click.RichCommand(
            name="watch",
            params=[click.RichArgument(["task_id"], required=True), *common_options()],
            callback=_watch,
            help="Follow a task until it rests.\n\nEnds with 0 when it succeeded, and with 1 when it did not.",
            epilog="Example: dragoman task watch 01890a5d-ac96-774b-bcce-b302099a8057",
            short_help="Follow a task until it rests.",
        )
    )
    return group


def _shown(operation: str) -> Callable[..., None]:
    def callback(
        as_json: bool,  # noqa: FBT001 - click calls it by name
        as_tenant: str | None,
        idempotency_key: str | None = None,
        **given: Any,
    ) -> None:
        values = {name: value for name, value in given.items() if value is not None and value != ()}
        task = call(operation, values, Asked(as_json, as_tenant, idempotency_key))["data"]
        view = View(as_json=as_json)
        if as_json:
            view.json(task)
        else:
            _story(view, task)

    return callback


def _submit(*, file: str | None, envelope: str | None, watch: bool, as_json: bool, as_tenant: str | None) -> None:
    asked, view = Asked(as_json, as_tenant), View(as_json=as_json)
    given = {"envelope": _read(file, envelope)}
    made = connect(asked).call(binding_of("task.submit"), given)["data"]
    if watch:
        _follow(view, asked, str(made["task_id"]))
        return
    if as_json:
        view.json(made)
        return
    view.thing(made)
    if made["waits_for"]:
        view.note(f"waits for approval: dragoman approval show {made['waits_for'][0]}")
    view.note(f"follow it: dragoman task watch {made['task_id']}")


def _read(file: str | None, envelope: str | None) -> Any:
    if (file is None) == (envelope is None):
        raise WrongUsage("give the envelope by --file or by --envelope")
    try:
        text = envelope if envelope is not None else _text(str(file))
        return json.loads(text)
    except OSError as error:
        raise WrongUsage(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise WrongUsage(f"{file or '--envelope'} is not JSON: {error}") from None


def _text(file: str) -> str:
    return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")


def _watch(*, task_id: str, as_json: bool, as_tenant: str | None) -> None:
    _follow(View(as_json=as_json), Asked(as_json, as_tenant), task_id)


def _follow(view: View, asked: Asked, task_id: str) -> None:
    """Print what happens as it happens; what it is busy with stands below while there is a terminal."""
    client = connect(asked)
    if asked.as_json:
        for _ in _events(asked, task_id):
            pass
    else:
        with view.err.status("") as busy:
            for event in _events(asked, task_id):
                body = event["body"]
                if body["kind"] == "progress":
                    percent = f"{body['percent']:.0f} %  " if body.get("percent") is not None else ""
                    busy.update(f"{percent}{plain(body['text'])}")
                elif body["kind"] in ("status", "refused"):
                    busy.update(body["to"].replace("_", " "))
                    _line(view, event["at"], body)
    task = client.call(binding_of("task.status"), {"task_id": task_id})["data"]
    if asked.as_json:
        view.json(task)
    else:
        _outcome(view, task)
    if task["state"] != "succeeded":
        sys.exit(FAILED)


def _events(asked: Asked, task_id: str) -> Iterator[Json]:
    client, after = connect(asked), 0
    while True:
        page = client.call(binding_of("task.events"), {"task_id": task_id, "after": after})["data"]
        yield from page["events"]
        after = page["next_after"]
        if not page["events"]:
            if page["state"] in _OVER or page["state"] == "input_required":
                return
            time.sleep(_LOOK_S)


def _story(view: View, task: Json) -> None:
    """A task from its beginning: what it is, each step, and what came of it."""
    state = task["state"]
    view.say(
        (f"{_MARKS.get(state, '·')} {state.replace('_', ' ')}", f"bold {_COLOURS[state]}"),
        f"  {task['action'] or 'a turn of a conversation'}",
        (f"  {task['task_id']}", "dim"),
    )
    matter, resource = cast("Json", task["matter"] or {}), cast("Json", task["resource"] or {})
    facts: Json = {
        "asked by": task["actor"],
        "for": for_whom(task),
        "matter": matter.get("id"),
        "on": f"{resource['type']} {resource['id']}" if resource else None,
        "correlation": task["correlation_id"],
        "attempt": f"{task['attempt']} of {task['max_attempts']}" + (f", run {task['run']}" if task["run"] > 1 else ""),
        "deadline": task["deadline"],
    }
    for name, value in facts.items():
        if value:
            view.say((f"  {name:<12}", "dim"), plain(str(value)))
    view.say("")
    for step in task["history"]:
        _line(view, step["at"], step | {"kind": "refused" if step["refused"] else "status"})
    _outcome(view, task)


def _line(view: View, at: str, step: Json) -> None:
    to, refused = step["to"], step["kind"] == "refused"
    said = [
        part for part in (step.get("worker"), f"attempt {step['attempt']}" if step.get("attempt") else None) if part
    ]
    reason = step.get("reason")
    view.say(
        (f"  {_clock(at)}  ", "dim"),
        (f"{'✘ no step to' if refused else _MARKS.get(to, '·')} ", "red" if refused else _COLOURS[to]),
        (f"{to.replace('_', ' '):<15}", "red" if refused else _COLOURS[to]),
        (f"{', '.join(said)}" if said else "", ""),
        (f"  {plain(reason)}" if reason else "", "dim"),
    )


def _outcome(view: View, task: Json) -> None:
    for approval in task["waits_for"]:
        view.say(("  waits for    ", "yellow"), f"dragoman approval show {approval}")
    if task["question"] and not task["waits_for"]:
        view.say(("  asks         ", "yellow"), plain(str(task["question"].get("question", task["question"]))))
    if task["error"]:
        view.say((f"  {task['error']['code']}  ", "bold red"), plain(str(task["error"]["message"])))
    for policy in task["governance"].get("policies", ()):
        view.say(("  policy       ", "dim"), f"{policy.get('id')} {policy.get('version', '')}")
    for approval in task["governance"].get("approvals", ()):
        view.say(("  approval     ", "dim"), str(approval.get("id", approval)))
    for evidence in task["evidence"]:
        view.say(("  evidence     ", "dim"), f"{evidence['kind']}  {evidence['sha256'][:16]}  {evidence['uri']}")
    if task["result"]:
        view.say("")
        view.thing(task["result"])


def _clock(at: str) -> str:
    return moment(at, "%H:%M:%S.%f")[:-3]
