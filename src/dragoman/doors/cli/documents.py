"""`dragoman document`: the projected commands, with contents that come from files and go to files."""

import base64
import hashlib
import sys
from pathlib import Path
from typing import Any

import rich_click as click

from dragoman.doors.cli.endings import Ending, WrongUsage
from dragoman.doors.cli.program import program
from dragoman.doors.cli.projection import project_noun
from dragoman.doors.cli.session import Asked, binding_of, call, connect
from dragoman.doors.cli.views import View
from dragoman.doors.cli.whole_file import STDOUT, encoded, whole_binary_file

_TYPES = {
    ".pdf": "application/pdf",
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".typ": "text/x-typst",
    ".txt": "text/plain",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
_IN_PIECES = ("offset", "length")


def document_commands(help_text: str) -> click.RichGroup:
    """Every operation of documents as a command."""
    group = project_noun("document", help_text)
    _read_file(group.commands["add"])
    _write_file(group.commands["content"])
    group.commands["show"].callback = _show
    return group


def _read_file(command: click.Command) -> None:
    command.params = [
        click.RichArgument(["file"], type=click.Path(path_type=Path, dir_okay=False)),
        *(param for param in command.params if param.name != "content"),
    ]
    for param in command.params:
        if param.name == "media_type":
            param.required = False
            param.default = None
    command.callback = _add
    command.epilog = f"Example: {program()} document add terms.pdf --title 'Terms of delivery'"


def _write_file(command: click.Command) -> None:
    command.params = [
        *(param for param in command.params if param.name not in _IN_PIECES),
        click.RichOption(["--output", "-o", "output"], default=STDOUT, metavar="FILE", help="Where to; `-` is a pipe."),
    ]
    command.callback = _content
    command.help = "Write what stands in a document to a file, whole or not at all."
    command.epilog = f"Example: {program()} document content nda-acme --output nda.pdf"


def _add(
    file: Path,
    as_json: bool,  # noqa: FBT001 - click calls it by name
    as_tenant: str | None,
    idempotency_key: str | None,
    **given: Any,
) -> None:
    wanted = {name: value for name, value in given.items() if value is not None}
    wanted.setdefault("media_type", _TYPES.get(file.suffix.lower()))
    if wanted["media_type"] is None:
        raise WrongUsage(f"cannot tell what {file.name} is; say it with --media-type")
    if "document_id" not in wanted:
        wanted.setdefault("title", file.stem)
    wanted["content"] = encoded(file)
    document = call("document.add", wanted, Asked(as_json, as_tenant, idempotency_key))["data"]
    view = View(as_json=as_json)
    if as_json:
        view.json(document)
    else:
        view.thing(document)


def _content(output: str, as_json: bool, as_tenant: str | None, **given: Any) -> None:  # noqa: FBT001
    wanted = {name: value for name, value in given.items() if value is not None}
    view = View(as_json=as_json)
    client, binding = connect(Asked(as_json, as_tenant)), binding_of("document.content")
    if as_json and output == STDOUT:
        view.json(client.call(binding, wanted)["data"])
        return
    piece = client.call(binding, wanted)["data"]
    if output == STDOUT and sys.stdout.isatty() and not piece["media_type"].startswith("text/"):
        raise WrongUsage(f"this is {piece['media_type']} and not for a terminal; say where to with --output FILE")
    digest = hashlib.sha256()
    with whole_binary_file(output) as out:
        while True:
            content = base64.b64decode(piece["content"])
            digest.update(content)
            out.write(content)
            if piece["next_offset"] is None:
                break
            # The version that was begun with: a newer one may come in meanwhile.
            rest = wanted | {"version": piece["version"], "offset": piece["next_offset"]}
            piece = client.call(binding, rest)["data"]
        if digest.hexdigest() != piece["sha256"]:
            raise Ending("what arrived is not what the server has; nothing was written")
    if output == STDOUT:
        return
    told = {"file": output, "sha256": piece["sha256"], "size_bytes": piece["size_bytes"], "version": piece["version"]}
    if as_json:
        view.json(told)
    else:
        view.say(("written", "green"), f"  {piece['size_bytes']:,} bytes of version {piece['version']} in {output}")


def _show(document_id: str, as_json: bool, as_tenant: str | None) -> None:  # noqa: FBT001 - click calls it by name
    document = call("document.show", {"document_id": document_id}, Asked(as_json, as_tenant))["data"]
    view = View(as_json=as_json)
    if as_json:
        view.json(document)
        return
    versions = document.pop("versions")
    view.thing(document)
    view.out.print()
    view.rows("document_version", versions)
