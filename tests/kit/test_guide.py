import ast
import asyncio
import inspect
import re
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from dragoman.kit.testing import runtime_of

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GUIDE = Path(__file__).parents[2] / "docs" / "kit.md"


def blocks() -> list[CodeType]:
    """The examples as code, each with the line numbers of the page; `await` stands at the top, as in a notebook."""
    text = GUIDE.read_text(encoding="utf-8")
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    return [
        compile("\n" * text[: found.start(1)].count("\n") + found[1], str(GUIDE), "exec", flags=flags)
        for found in BLOCK.finditer(text)
    ]


async def run_examples() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "guide"}
    for code in blocks():
        running = FunctionType(code, names)()
        if inspect.isawaitable(running):
            await running
    return names


async def test_every_example_of_the_guide_runs() -> None:
    await run_examples()

    assert len(blocks()) == 13


async def test_the_notes_of_the_guide_keep_all_of_twenty_calls_at_once() -> None:
    notes = (await run_examples())["Notes"]
    calls = [{"tool": "add_note", "arguments": {"text": f"note {number}"}} for number in range(20)]

    async with runtime_of(notes) as runtime:
        tasks = await asyncio.gather(*(runtime.send(call, context_id="c") for call in calls))

    assert [task.artifacts[0].content.data[0] for task in tasks] == list(range(1, 21))
