"""`dragoman audit`: the projected commands, a verdict for scripts, a file for auditors and the program to check it."""

import hashlib
import json
import shutil
import sys
import tempfile
from typing import Any, TextIO

import rich_click as click

from dragoman.doors.cli.client import Client
from dragoman.doors.cli.endings import FAILED
from dragoman.doors.cli.program import program
from dragoman.doors.cli.projection import project_noun
from dragoman.doors.cli.session import Asked, binding_of, call, common_options, connect
from dragoman.doors.cli.views import View
from dragoman.doors.cli.whole_file import STDOUT, whole_file
from dragoman.operations import Binding
from dragoman.services.audit.bundle import verifier_source
from dragoman.services.audit.promises import Disagreement


def audit_commands(help_text: str) -> click.RichGroup:
    """`list`, `verify`, `export`, `verifier`."""
    group = project_noun("audit", help_text)
    group.commands["verify"].callback = _verify
    group.commands["verify"].epilog = f"Example: {program()} audit verify || echo 'somebody touched the trail'"
    group.commands["list"].epilog = f"Example: {program()} audit list --action signature.send --actor olga"
    group.add_command(_export())
    group.add_command(_verifier())
    return group


def _verify(as_json: bool, as_tenant: str | None, head: dict[str, Any] | None) -> None:  # noqa: FBT001
    """The verdict, which is also the exit code."""
    view = View(as_json=as_json)
    report = call("audit.verify", {"head": head} if head else {}, Asked(as_json, as_tenant))["data"]
    if as_json:
        view.json(report)
    elif report["ok"]:
        waiting = f", {report['unsealed']} waiting for their seal" if report["unsealed"] else ""
        view.say(
            ("OK", "bold green"),
            f"  {report['records']} records, unbroken and signed{waiting}; {report['rows']} rows agree",
        )
        if not report["trusted_heads"]:
            view.note("No head was kept outside the database: a cut at the end cannot be found without one (--head).")
    else:
        for problem in report["problems"]:
            record = f"  record {problem['record_id']}" if problem["record_id"] else ""
            view.say(("BROKEN", "bold red"), f"  at link {problem['seq']}: {problem['reason']}", (record, "dim"))
        for found in report["disagreements"]:
            view.say(("CHANGED", "bold red"), f"  {Disagreement(key=found.pop('id'), **found)}")
    if not report["ok"]:
        sys.exit(FAILED)


def _export() -> click.Command:
    @click.argument("file", type=click.Path(dir_okay=False, allow_dash=True), default=STDOUT)
    def export(file: str, as_json: bool, as_tenant: str | None) -> None:  # noqa: FBT001 - click calls it by name
        """Write the audit chain with its signed head as JSON lines, to FILE or to the terminal.

        The file appears when it is whole. Whoever has it can check it without this server: see `audit verifier`.
        """
        view = View(as_json=as_json)
        with whole_file(file) as out:
            head = _write_chain(out, Asked(as_json, as_tenant))
        records = head["seq"] if head else 0
        if file == STDOUT:
            return
        if as_json:
            view.json({"file": file, "records": records, "head": head})
        else:
            view.say(("written", "green"), f"  {records} records in {file}")
            view.note(f"Check it: {program()} audit verifier > verify_audit.py && python3 verify_audit.py {file}")

    command = click.command(epilog=f"Example: {program()} audit export trail.jsonl")(export)
    command.params += common_options()
    return command


def _write_chain(out: TextIO, asked: Asked) -> dict[str, Any] | None:
    """Every record up to the head of the first piece, that head, and the rows that the chain speaks for.

    What is written meanwhile is not in the chain of the export. Rows are read before the records that came after the
    head: those name every row that may be newer than the chain.
    """
    client, binding = connect(asked), binding_of("audit.export")
    piece = client.call(binding, {})["data"]
    head, last = piece["head"], 0
    about = {name: piece[name] for name in ("tenant", "public_key", "made_at", "tables")}
    _write(out, {"type": "export", **about})
    while True:
        for record in piece["records"]:
            _write(out, {"type": "record", **record})
            last = record["seq"]
        if piece["next_after"] is None:
            break
        until = {"until": head["seq"]} if head is not None else {}
        piece = client.call(binding, {"after": piece["next_after"], **until})["data"]
    if head is not None:
        _write(out, {"type": "head", **head})
    with tempfile.TemporaryFile("w+", encoding="utf-8") as rows:
        row_count = _write_rows(rows, client, binding)
        tail = _write_tail(out, client, binding, head["seq"] if head is not None else 0)
        rows.seek(0)
        shutil.copyfileobj(rows, out)
    _write(out, {"type": "end", "rows": row_count, "tail": tail})
    if last != (head["seq"] if head else 0):
        View().note(f"warning: the records end at link {last}, not at their head; the verifier will say so too")
    return head


def _write_rows(out: TextIO, client: Client, binding: Binding) -> int:
    count, cursor = 0, ""
    while cursor is not None:
        piece = client.call(binding, {"part": "rows", "cursor": cursor})["data"]
        for row in piece["rows"]:
            _write(out, {"type": "row", **row})
        for found in piece["broken"]:
            _write(out, {"type": "broken", "key": found.pop("id"), **found})
        count, cursor = count + len(piece["rows"]), piece["next_cursor"]
    return count


def _write_tail(out: TextIO, client: Client, binding: Binding, after: int) -> int:
    count, cursor = 0, ""
    while cursor is not None:
        piece = client.call(binding, {"part": "tail", "after": after, "cursor": cursor})["data"]
        for record in piece["records"]:
            _write(out, {"type": "tail", "seq": record["seq"], "id": record["id"], "body": record["body"]})
        count, cursor, after = count + len(piece["records"]), piece["next_cursor"], piece["next_after"] or after
    return count


def _write(out: TextIO, line: dict[str, Any]) -> None:
    out.write(json.dumps(line) + "\n")


def _verifier() -> click.Command:
    @click.command(epilog=f"Example: {program()} audit verifier > verify_audit.py")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    def verifier(as_json: bool) -> None:  # noqa: FBT001 - click calls it by name
        """Print the standalone verifier: one Python file without dependencies, for auditors to keep."""
        source = verifier_source()
        if as_json:
            View(as_json=True).json({"source": source, "sha256": hashlib.sha256(source.encode()).hexdigest()})
        else:
            click.echo(source, nl=False)

    return verifier
