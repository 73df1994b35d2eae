"""`dragoman memory`: the projected commands, with answers of a search and of a history that can be read."""

from typing import Any

import rich_click as click

from dragoman.doors.cli.memory_files import write_files
from dragoman.doors.cli.projection import project_noun
from dragoman.doors.cli.session import Asked, call
from dragoman.doors.cli.views import View

_PARTS = ("words", "meaning", "neighbours", "freshness")


def memory_commands(help_text: str) -> click.RichGroup:
    """Every operation of memory as a command."""
    group = project_noun("memory", help_text)
    group.commands["search"].callback = _search
    group.commands["history"].callback = _history
    write_files(group)
    return group


def _search(as_json: bool, as_tenant: str | None, **given: Any) -> None:  # noqa: FBT001 - click calls it by name
    """A table of what was found; with `--explain` each score with its parts."""
    wanted = {name: value for name, value in given.items() if value is not None and value != ()}
    found = call("memory.search", wanted, Asked(as_json, as_tenant))["data"]
    view = View(as_json=as_json)
    if as_json:
        view.json(found)
        return
    rows = [{**hit, "score": f"{hit['score']:.2f}", "why": _why(hit["explanation"])} for hit in found["results"]]
    view.rows("memory", rows)
    more = found["total_count"] - len(rows)
    looked = ", ".join(found["searched_layers"])
    view.note(
        f"searched {looked}{'' if found['by_meaning'] else ', by words alone'}{f'; {more} more' if more > 0 else ''}"
    )


def _history(memory_id: str, as_json: bool, as_tenant: str | None) -> None:  # noqa: FBT001 - click calls it by name
    """A table of the versions."""
    history = call("memory.history", {"memory_id": memory_id}, Asked(as_json, as_tenant))["data"]
    view = View(as_json=as_json)
    if as_json:
        view.json(history)
    else:
        view.rows("memory_version", history["versions"])


def _why(explanation: dict[str, Any] | None) -> str | None:
    if explanation is None:
        return None
    parts = [f"{name} {explanation[name]:.2f}" for name in _PARTS if explanation[name] is not None]
    return ", ".join(parts)
