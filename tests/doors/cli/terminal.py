"""Typing commands: in this process, which is quicker than starting one for each."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from dragoman.__main__ import main


@dataclass(frozen=True, slots=True)
class Typed:
    """How a command ended, and what it said."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What a program sees."""
        return json.loads(self.out)


class Terminal:
    """Someone at a keyboard."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], environment: Mapping[str, str]
    ) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self._environment = environment

    def type(self, *words: str, program: str = "dragoman", **environment: str) -> Typed:
        """Run a command to its end; variables without their prefix, or as they are when in upper case."""
        with self._monkeypatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("DRAGOMAN_") or name == "COLUMNS"]:
                patch.delenv(name)
            for name, value in {**self._environment, **environment}.items():
                patch.setenv(name if name.isupper() else f"DRAGOMAN_{name.upper()}", value)
            patch.setattr(sys, "argv", [f"/usr/bin/{program}", *words])
            with pytest.raises(SystemExit) as ended:
                main()
        out, err = self._capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Typed(ended.value.code, out, err)
