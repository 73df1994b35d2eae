import ast
import inspect
import re
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

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


async def test_every_example_of_the_guide_runs() -> None:
    names: dict[str, Any] = {"__name__": "guide"}
    for code in blocks():
        running = FunctionType(code, names)()
        if inspect.isawaitable(running):
            await running

    assert len(blocks()) == 10
