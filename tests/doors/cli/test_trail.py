import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.doors.cli.terminal import Terminal
from tests.harness import Server


def test_verify_ends_with_the_verdict(terminal: Terminal, tenant: str) -> None:
    terminal.type("key", "create", "--tenant", tenant, "--name", "one")
    cut = json.dumps({"seq": 4000, "hash": "0" * 64})

    whole, broken = (terminal.type("audit", "verify", "--tenant", tenant, *more) for more in ((), ("--head", cut)))
    for_programs = terminal.type("audit", "verify", "--tenant", tenant, "--head", cut, "--json")

    assert (whole.status, whole.out[:2]) == (0, "OK")
    assert (broken.status, broken.out[:6]) == (1, "BROKEN")
    assert (for_programs.status, for_programs.data["ok"]) == (1, False)


def test_a_whole_file_or_none(terminal: Terminal, tmp_path: Path, server: Server) -> None:
    file = tmp_path / "trail.jsonl"

    refused = terminal.type("audit", "export", str(file), token=server.token(role="agent", scopes=["read:costs"]))
    nowhere = terminal.type("audit", "export", "/nowhere/trail.jsonl")

    assert (refused.status, nowhere.status) == (4, 1)
    assert list(tmp_path.iterdir()) == []


class GrowingChain:
    """A server whose chain has grown each time it is asked, and that gives it away in small pieces."""

    url = "http://busy.example"

    def __init__(self) -> None:
        self._end = 5

    def call(self, _: object, given: Mapping[str, Any]) -> dict[str, Any]:
        self._end += 3
        if (part := given.get("part")) is not None:
            return {"data": self._beside(part, given)}
        last = min(self._end, given.get("until", self._end))
        seqs = list(range(given.get("after", 0) + 1, last + 1))[:2]
        return {
            "data": {
                "tenant": "t",
                "public_key": "k",
                "made_at": "2026-11-15T12:00:00Z",
                "tables": {"tasks": 2},
                "records": [{"seq": seq} for seq in seqs],
                "head": {"seq": last},
                "next_after": seqs[-1] if seqs[-1] < last else None,
            }
        }

    def _beside(self, part: str, given: Mapping[str, Any]) -> dict[str, Any]:
        first = given["cursor"] == ""
        records = [{"seq": None if first else 9, "id": "i", "body": "b", "mac": "m", "hash": "h"}]
        rows = [{"name": f"tasks/{'a' if first else 'b'}", "columns": {"state": "failed"}}]
        return {
            "records": records if part == "tail" else [],
            "rows": rows if part == "rows" else [],
            "broken": [],
            "next_cursor": "on" if first else None,
            "next_after": None,
        }


def test_an_export_of_a_chain_that_grows_meanwhile_ends_at_its_head(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(_: object) -> GrowingChain:
        return GrowingChain()

    monkeypatch.setattr("dragoman.doors.cli.trail.connect", connect)

    written = terminal.type("audit", "export", "-")

    lines = [json.loads(line) for line in written.out.splitlines()]
    assert [(line["type"], line.get("seq")) for line in lines] == [
        ("export", None),
        *(("record", seq) for seq in range(1, 9)),
        ("head", 8),
        ("tail", None),
        ("tail", 9),
        ("row", None),
        ("row", None),
        ("end", None),
    ]
    assert lines[-1] == {"type": "end", "rows": 2, "tail": 2}
