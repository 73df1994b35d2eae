"""From blocks to a PDF, in a process of its own that is given some seconds."""

import asyncio
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import structlog

from dragoman.blocking import Slots
from dragoman.context import TenantId
from dragoman.errors import ExtraMissing, TimedOut, UpstreamUnavailable
from dragoman.infra.programs import end_program, start_program
from dragoman.services.contracts.errors import Unprintable
from dragoman.services.contracts.press import UNPRINTABLE
from dragoman.services.contracts.prose import Block

_LOG = structlog.get_logger(__name__)
_HERE: Final = Path(__file__).parent
_PRESS: Final = _HERE / "press.py"
_LAYOUT: Final = _HERE / "layout" / "contract.typ"
_PAGE: Final = re.compile(rb"/Type\s*/Page\b")
_SHOWN: Final = re.compile(r'the text `"(.*)"` could not')


@dataclass(frozen=True, slots=True)
class SetRun:
    """Words as they are to look; the reason for a change stands below the page."""

    text: str
    strong: bool = False
    change: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SetBlock:
    """A block as it is to look."""

    kind: str
    runs: Sequence[SetRun]


def plain(blocks: Iterable[Block]) -> list[SetBlock]:
    """Blocks without any change to be seen."""
    return [SetBlock(block.kind.value, [SetRun(run.text, run.strong) for run in block.runs]) for block in blocks]


def count_pages(pdf: bytes) -> int:
    """How many pages a PDF of ours has."""
    return len(_PAGE.findall(pdf))


class Typesetter:
    """Sets contracts. The same blocks give the same bytes."""

    def __init__(self, *, timeout_s: float = 30, at_once: int = 2) -> None:
        self._timeout_s = timeout_s
        # One place is always left to others than the tenant that asks most.
        self._slots = Slots(max(2, at_once), share=max(1, at_once // 2))

    async def typeset(
        self, blocks: Sequence[SetBlock], *, tenant: TenantId, title: str, note: str = "", legend: str | None = None
    ) -> bytes:
        """A PDF.

        Raises:
            Unprintable: no font of this machine has some of the characters.
            TimedOut: it took too long, and was ended.
            ExtraMissing: the server was installed without typst.
        """
        if find_spec("typst") is None:
            raise ExtraMissing("contracts")
        given = {"title": title, "note": note, "legend": legend, "blocks": [asdict(block) for block in blocks]}
        async with self._slots.hold(tenant):
            status, made, said = await self._press(json.dumps(given).encode())
        if status == 0:
            return made
        if status == UNPRINTABLE:
            problem = str(json.loads(said)["problem"])
            raise Unprintable(match[1] if (match := _SHOWN.search(problem)) else "")
        _LOG.error("typesetting.failed", status=status, said=said[-2000:].decode(errors="replace"))
        raise UpstreamUnavailable("typesetting")

    async def _press(self, given: bytes) -> tuple[int, bytes, bytes]:
        press = await start_program(
            (sys.executable, "-I", str(_PRESS), str(_LAYOUT)),
            stderr=asyncio.subprocess.PIPE,
            environment={"LANG": "C.UTF-8"},
            directory=_LAYOUT.parent,
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                made, said = await press.communicate(given)
        except TimeoutError:
            raise TimedOut(after_s=self._timeout_s) from None
        finally:
            if press.returncode is None:
                await end_program(press)
        return await press.wait(), made, said
