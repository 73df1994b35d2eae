"""Lists that can be read at 80 columns, and text that can be copied."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import rich_click as click

from dragoman.__main__ import PROGRAMS
from dragoman.doors.cli.cells import cell
from dragoman.doors.cli.commands import create
from dragoman.doors.cli.table import render_list
from tests.doors.cli.terminal import Terminal

ID = "01890a5d-ac96-774b-bcce-b302099a8057"
WHEN = "2026-11-15T22:56:19.123456+00:00"
ROWS: dict[str, dict[str, Any]] = {
    "tenant": {"id": ID, "slug": "acme", "name": "Acme " * 20, "plan": "enterprise", "status": "suspended",
               "settings": {}, "created_at": WHEN, "updated_at": WHEN, "version": 3},
    "user": {"id": ID, "subject": "a@example.com", "email": f"{'long' * 20}@example.com", "name": "Ada " * 20,
             "role": "super_admin", "status": "disabled", "created_at": WHEN},
    "key": {"id": ID, "name": "nightly " * 10, "subject": "key:" + "nightly " * 10, "role": "org_admin",
            "scopes": ["read:costs", "read:audit"], "hint": "dgm_018...1234", "created_at": WHEN, "expires_at": WHEN},
    "audit": {"id": ID, "seq": 12345, "at": WHEN, "operation": "tenant.suspend", "outcome": "refused",
              "subject": "somebody-with-a-long-name@example.com", "principal_type": "user", "credential": ID,
              "door": "rest", "request_id": ID, "resource": ID, "code": "PRECONDITION_FAILED"},
    "novelty": {"id": ID, "title": "word " * 30, "state": "open", "note": "word " * 30, "at": WHEN},
}  # fmt: skip


def lines(noun: str, width: int) -> list[str]:
    return [line.plain for line in render_list(noun, [ROWS[noun], ROWS[noun]], width)]


@pytest.mark.parametrize("width", [80, 100, 120, 200])
@pytest.mark.parametrize("noun", ROWS)
def test_a_row_is_one_line_that_fits(noun: str, width: int) -> None:
    shown = lines(noun, width)

    assert len(shown) == 3
    assert max(map(len, shown)) <= width


@pytest.mark.parametrize("noun", ROWS)
def test_a_column_is_wide_enough_to_be_read_or_not_there(noun: str) -> None:
    """Letter by letter down the edge of the screen is how a table must not shrink."""
    heading, row, _ = lines(noun, 80)

    cut = [word for word in row.split("  ") if word.strip().endswith("…")]
    assert all(len(word.strip()) >= 12 for word in cut)
    assert len(heading.split("  ")) >= 3


@pytest.mark.parametrize(("noun", "whole"), [("tenant", "acme"), ("user", ID), ("key", ID), ("novelty", ID)])
def test_what_show_wants_is_whole_at_any_width(noun: str, whole: str) -> None:
    assert all(whole in lines(noun, width)[1] for width in (40, 80, 120))


def test_a_wide_terminal_shows_more() -> None:
    assert "request" not in lines("audit", 80)[0]
    assert "request" in lines("audit", 200)[0]


def test_times_are_compact_and_in_utc() -> None:
    assert "2026-11-15 22:56:19" in lines("audit", 80)[1]
    assert "123456" not in lines("audit", 80)[1]


def test_a_pipe_gets_everything_in_plain_text(terminal: Terminal) -> None:
    name = "Very long " * 15

    slug = "wide-tenant"
    terminal.type("tenant", "create", "--name", name, "--slug", slug)
    piped, narrow = terminal.type("tenant", "list"), terminal.type("tenant", "list", COLUMNS="60")

    assert name.strip() in piped.out
    assert name.strip() not in narrow.out
    assert "\x1b" not in piped.out + narrow.out
    assert max(map(len, narrow.out.splitlines())) <= 60


def test_colour_is_for_terminals_and_not_for_those_who_refuse_it(terminal: Terminal) -> None:
    coloured = terminal.type("tenant", "list", FORCE_COLOR="1", TERM="xterm-256color")
    refused = terminal.type("tenant", "list", FORCE_COLOR="1", NO_COLOR="1", TERM="xterm-256color")

    assert "\x1b[32m" in coloured.out
    assert "\x1b[32m" not in refused.out


def test_what_somebody_else_typed_cannot_move_the_cursor() -> None:
    assert cell("a\x1b[2Jb\x9bc\nd").plain == "a[2Jbcd"
    assert cell("pay \u202e000,1\u202c \u2066x\u2069").plain == "pay <U+202E>000,1<U+202C> <U+2066>x<U+2069>"


def test_a_secret_stays_on_one_line_however_narrow_the_terminal(terminal: Terminal) -> None:
    made = terminal.type("key", "create", "--name", "narrow", COLUMNS="40")

    secret = next(line.split()[1] for line in made.out.splitlines() if line.startswith("secret"))
    assert terminal.type("whoami", token=secret).status == 0


def commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if path:
        yield path, command
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from commands(child, (*path, name))


def every_command() -> list[tuple[tuple[str, ...], click.Command]]:
    root = create(PROGRAMS)
    return [pair for name in root.commands for pair in commands(root.load(name), (name,))]


def test_every_command_teaches_with_an_example_and_speaks_json() -> None:
    shown = [(" ".join(path), command) for path, command in every_command() if not command.hidden]
    leaves = [(path, command) for path, command in shown if not isinstance(command, click.Group) or path == "token"]

    assert [path for path, command in leaves if not (command.epilog or "").startswith("Example: ")] == []
    assert [path for path, command in shown if not command.help] == []
    # What runs until it is stopped has nothing to print, and a story is for people.
    assert [path for path, command in leaves if "as_json" not in {param.name for param in command.params}] == [
        "serve",
        "migrate",
        "mcp",
        "demo",
    ]


def test_help_groups_commands_by_what_one_wants(terminal: Terminal) -> None:
    helped = terminal.type("--help", COLUMNS="80")

    headings = re.findall(r"^(\w[\w ]{0,20}:) *$", helped.out, re.MULTILINE)
    assert headings == [
        "Run it:",
        "Who may do what:",
        "What is known:",
        "What is worked on:",
        "What was done:",
        "What plugins bring:",
        "Options:",
    ]
    assert "serve-child" not in helped.out
    assert max(map(len, helped.out.splitlines())) <= 80
