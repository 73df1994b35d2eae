"""`dragoman memory export` and `import`: memories as files of JSON lines, a piece at a time."""

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import rich_click as click

from dragoman.doors.cli.endings import Refused, WrongUsage
from dragoman.doors.cli.program import program
from dragoman.doors.cli.session import Asked, binding_of, connect
from dragoman.doors.cli.views import View
from dragoman.doors.cli.whole_file import STDOUT, whole_file
from dragoman.services.memory.models import MOST_AT_ONCE

# What an answer of the server may carry at once; a memory can have 64 KiB.
_MOST_BYTES = 500_000


def write_files(group: click.RichGroup) -> None:
    """Let `export` write a file and `import` read one, instead of pieces on the command line."""
    export, import_ = group.commands["export"], group.commands["import"]
    export.params = [
        _argument(click.Path(dir_okay=False, allow_dash=True)),
        *(param for param in export.params if param.name not in ("cursor", "limit")),
    ]
    export.callback = _export
    export.help = (
        "Write what holds now as JSON lines, oldest first, to FILE or to the terminal.\n\n"
        "The file appears when it is whole. `memory import` reads it, here or elsewhere."
    )
    export.epilog = f"Example: {program()} memory export memories.jsonl"
    import_.params = [
        _argument(click.File(encoding="utf-8")),
        *(param for param in import_.params if param.name != "memories"),
    ]
    import_.callback = _import
    import_.help = (
        "Remember what `memory export` wrote, from FILE or from standard input.\n\n"
        "What is there already is merged, so an import that was broken off can be run again."
    )
    import_.epilog = f"Example: {program()} memory import memories.jsonl"


def _argument(kind: click.ParamType[Any, Any]) -> click.Argument:
    return click.Argument(["file"], type=kind, default=STDOUT)


def _export(file: str, as_json: bool, as_tenant: str | None, **given: Any) -> None:  # noqa: FBT001
    wanted = {name: value for name, value in given.items() if value is not None and value != ()}
    view = View(as_json=as_json)
    client, binding = connect(Asked(as_json, as_tenant)), binding_of("memory.export")
    written = 0
    with whole_file(file) as out, _progress(view) as tell:
        while True:
            answer = client.call(binding, wanted)
            for memory in answer["data"]:
                out.write(json.dumps(memory, ensure_ascii=False) + "\n")
            written += len(answer["data"])
            tell(f"{written:,} memories written")
            if (cursor := answer["meta"].get("nextCursor")) is None:
                break
            wanted["cursor"] = cursor
    if file == STDOUT:
        return
    if as_json:
        view.json({"file": file, "memories": written})
    else:
        view.say(("written", "green"), f"  {written} memories in {file}")


def _import(
    file: TextIO,
    as_json: bool,  # noqa: FBT001 - click calls it by name
    as_tenant: str | None,
    idempotency_key: str | None,
) -> None:
    view = View(as_json=as_json)
    client, binding = connect(Asked(as_json, as_tenant)), binding_of("memory.import")
    added = merged = 0
    with _progress(view) as tell:
        for first, piece in _pieces(file):
            try:
                # Each piece is a request of its own, and has a key of its own.
                key = f"{idempotency_key}-{first}" if idempotency_key is not None else None
                answer = client.call(binding, {"memories": piece}, idempotency_key=key)["data"]
            except Refused:
                view.note(f"memories.0 is line {first} of the file; what stands before it is in, and nothing after")
                raise
            added, merged = added + answer["added"], merged + answer["deduplicated"]
            tell(f"{added + merged:,} memories read")
    if as_json:
        view.json({"file": file.name, "added": added, "deduplicated": merged})
    else:
        view.say(("imported", "green"), f"  {added} new, {merged} merged into what was there")


def _pieces(lines: TextIO) -> Iterator[tuple[int, list[Any]]]:
    """Memories in pieces that the server takes, each with the number of its first line."""
    piece: list[Any] = []
    first, size = 1, 0
    for number, line in _numbered(lines):
        if piece and (len(piece) == MOST_AT_ONCE or size + len(line) > _MOST_BYTES):
            yield first, piece
            piece, first, size = [], number, 0
        try:
            piece.append(json.loads(line))
        except ValueError:
            raise WrongUsage(f"line {number} is not JSON") from None
        size += len(line)
    if piece:
        yield first, piece


def _numbered(lines: TextIO) -> Iterator[tuple[int, str]]:
    try:
        yield from ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    except UnicodeDecodeError:
        raise WrongUsage("the file is not text in UTF-8") from None


@contextmanager
def _progress(view: View) -> Generator[Callable[[str], None]]:
    """How far it is, for whoever looks; nothing in a pipe."""
    if view.as_json or not view.err.is_terminal:
        yield _silently
        return
    with view.err.status("asking the server") as status:
        yield status.update


def _silently(text: str) -> None:
    """To nobody."""
