"""`dragoman knowledge`: the projected commands, a linter for working trees, and documents as one reads them."""

import sys
from pathlib import Path
from typing import Any, cast

import rich_click as click

from dragoman.doors.cli.endings import FAILED, WrongUsage
from dragoman.doors.cli.program import allow_unused, program
from dragoman.doors.cli.projection import project_noun
from dragoman.doors.cli.sarif import sarif_of
from dragoman.doors.cli.session import Asked, binding_of, call, common_options, connect
from dragoman.doors.cli.views import View
from dragoman.doors.cli.worktree import chunks, read_tree

_STYLES = {"block": "bold red", "warn": "yellow", "info": "cyan"}
Json = dict[str, Any]


def knowledge_commands(help_text: str) -> click.RichGroup:
    """All operations; `check` reads a tree, `propose` a file, `query` and `show` are made to be read."""
    group = project_noun("knowledge", help_text)
    group.add_command(_check())
    propose = group.commands["propose"]
    propose.params.insert(0, click.RichArgument(["file"], required=False, type=click.Path(path_type=Path)))
    projected = propose.callback

    def from_file(file: Path | None, **given: Any) -> None:
        if file is not None:
            given["document"] = _read(file)
        if projected is not None:
            projected(**given)

    propose.callback = from_file
    propose.epilog = f"Example: {program()} knowledge propose adr-use-postgresql.md"
    group.commands["query"].callback = _query
    group.commands["show"].callback = _show
    return group


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(f"cannot read {file}: {error}") from None


def _query(as_json: bool, as_tenant: str | None, **given: Any) -> None:  # noqa: FBT001 - click calls it by name
    result = call("knowledge.query", _given(given), Asked(as_json, as_tenant))["data"]
    view = View(as_json=as_json)
    if as_json:
        view.json(result)
    else:
        view.rows("knowledge", result["items"])


def _show(as_json: bool, as_tenant: str | None, **given: Any) -> None:  # noqa: FBT001 - click calls it by name
    wanted = {name: value for name, value in given.items() if value is not None}
    item = call("knowledge.show", wanted, Asked(as_json, as_tenant))["data"]
    view = View(as_json=as_json)
    if as_json:
        view.json(item)
        return
    allow_unused()
    from rich.markdown import Markdown  # noqa: PLC0415 - it takes a while to import

    content = item.pop("content")
    view.thing({name: value for name, value in item.items() if name not in ("constraints", "history", "summary")})
    for one in item["constraints"]:
        view.say(("demands  ", "dim"), f"{one['operator']} {one['target']} {one['pattern']}")
    for one in cast("list[Json]", item["history"] or []):
        view.say(
            (f"{one['commit'][:10]}  ", "yellow"), f"{one['at'][:16]}  {one['author']}  ", one["message"].split("\n")[0]
        )
    view.out.print()
    view.out.print(Markdown(content))


def _given(options: Json) -> Json:
    """The options that were given; several of one kind are a list."""
    lists = {name: list(cast("tuple[Any, ...]", value)) for name, value in options.items() if isinstance(value, tuple)}
    return {name: value for name, value in {**options, **lists}.items() if value}


def _check() -> click.Command:
    @click.command(epilog=f"Example: {program()} knowledge check . --diff origin/main --format sarif > knowledge.sarif")
    @click.argument("path", type=click.Path(path_type=Path), default=Path())
    @click.option("--diff", "since", metavar="REV", help="Only files that differ from this revision.")
    @click.option("--format", "form", type=click.Choice(["text", "json", "sarif"]), default="text", help="[text]")
    @click.option("--min-severity", type=click.Choice(["info", "warn", "block"]), help="Report nothing below [warn].")
    @click.option("--item-ids", multiple=True, help="Only these items, also proposed ones. May be repeated.")
    def check(path: Path, since: str | None, form: str, as_json: bool, as_tenant: str | None, **given: Any) -> None:  # noqa: FBT001
        """Check a working tree against what is accepted, like a linter.

        Files that git ignores, binary files and files over 1 MiB are left out; manifests and lock files give the
        dependencies. Exit code 0 when nothing of severity block is violated, 1 otherwise.
        """
        report = _checked(path, since, _given(given), Asked(as_json, as_tenant))
        view = View(as_json=as_json)
        if form == "sarif":
            view.json(sarif_of(report["violations"]))
        elif as_json or form == "json":
            view.json(report)
        else:
            _print(view, report)
        if not report["passed"]:
            sys.exit(FAILED)

    check.params += common_options()
    return check


def _checked(path: Path, since: str | None, wanted: Json, asked: Asked) -> Json:
    """The report over all chunks: what must be somewhere is missing when no chunk has it, and a diff cannot tell."""
    client, binding = connect(asked), binding_of("knowledge.check")
    violations: list[Json] = []
    unmet: list[list[Json]] = []
    files = 0
    for chunk in chunks(read_tree(path, since=since)):
        given = [{"path": file.path, "content": file.content} for file in chunk]
        part = client.call(binding, {**wanted, "files": given, "partial": True})["data"]
        violations += part["violations"]
        unmet.append(part["unmet"])
        files += len(chunk)
    if since is None:
        violations += [one for one in unmet[0] if all(one in others for others in unmet)]
    count = {severity: sum(one["severity"] == severity for one in violations) for severity in _STYLES}
    return {"passed": not count["block"], "violations": violations, "summary": {**count, "files": files}}


def _print(view: View, report: Json) -> None:
    for one in sorted(
        report["violations"], key=lambda found: (found["location"]["file"] or "", found["location"]["line"] or 0)
    ):
        place = one["location"]
        where = f"{place['file'] or '(project)'}{':' + str(place['line']) if place['line'] else ''}"
        view.say((where, "bold"), "  ", (one["severity"], _STYLES[one["severity"]]), f"  {one['message']}  ",
                 (f"[{one['item_id']}] {one['item_title']}", "dim"))  # fmt: skip
    summary = report["summary"]
    counts = ", ".join(f"{summary[severity]} {severity}" for severity in _STYLES)
    verdict = ("passed", "bold green") if report["passed"] else ("violated", "bold red")
    view.say(verdict, f"  {counts} in {summary['files']} files")
