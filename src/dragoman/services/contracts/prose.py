"""The text of a contract as blocks of words, and as the little of Markdown that a contract needs.

`# title`, `## heading`, `- item`, `> party` (a place to sign), paragraphs, and `**strong**` words. A backslash makes
the next mark a plain character. Reading what was written gives the same blocks again.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class BlockKind(StrEnum):
    """What a block is for."""

    TITLE = "title"
    HEADING = "heading"
    PARAGRAPH = "paragraph"
    ITEM = "item"
    SIGNATURE = "signature"


@dataclass(frozen=True, slots=True)
class Run:
    """Words in one manner."""

    text: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """A title, a heading, a paragraph, an item of a list, or a place for a party to sign."""

    kind: BlockKind
    runs: tuple[Run, ...]

    @property
    def text(self) -> str:
        """Its words."""
        return "".join(run.text for run in self.runs)


Blocks = tuple[Block, ...]
_MARKS: Final = (
    (re.compile(r"#\s+(.*)"), BlockKind.TITLE),
    (re.compile(r"#{2,6}\s+(.*)"), BlockKind.HEADING),
    (re.compile(r"[-*]\s+(.*)"), BlockKind.ITEM),
    (re.compile(r">\s*(.*)"), BlockKind.SIGNATURE),
)
_WRITTEN: Final = {
    BlockKind.TITLE: "# ", BlockKind.HEADING: "## ", BlockKind.ITEM: "- ", BlockKind.SIGNATURE: "> ",
    BlockKind.PARAGRAPH: "",
}  # fmt: skip
_INLINE: Final = re.compile(r"\\([!-/:-@\[-`{-~])|(\*\*)")
_ALWAYS_ESCAPED: Final = re.compile(r"[\\*]")
_ESCAPED_IN_FRONT: Final = "#->"
_BLANKS: Final = re.compile(r"\s+")


def read_markdown(text: str) -> Blocks:
    """Blocks of Markdown; what is none of ours is read as words."""
    return tuple(block for kind, words in _pieces(text) if (block := block_of(kind, _runs(words))) is not None)


def read_plain(text: str) -> Blocks:
    """Paragraphs of text without marks, each line one of its own."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return tuple(Block(BlockKind.PARAGRAPH, (Run(line),)) for line in lines if line)


def write_markdown(blocks: Iterable[Block]) -> str:
    """Markdown that reads as these blocks."""
    return "\n\n".join(_WRITTEN[block.kind] + _written(block) for block in blocks) + "\n"


def mark_of(kind: str) -> str:
    """What stands before a block of this kind."""
    return _WRITTEN[BlockKind(kind)]


def escape(text: str) -> str:
    """Words that are read as they are."""
    return _ALWAYS_ESCAPED.sub(lambda match: f"\\{match[0]}", text)


def block_of(kind: BlockKind, runs: Iterable[Run]) -> Block | None:
    """A block of these words, neighbours in the same manner joined and blanks folded; None when nothing is left."""
    joined: list[Run] = []
    for run in runs:
        text = _BLANKS.sub(" ", run.text)
        if not joined or joined[-1].text.endswith(" "):
            text = text.lstrip(" ")
        if text and joined and joined[-1].strong == run.strong:
            joined[-1] = Run(joined[-1].text + text, run.strong)
        elif text:
            joined.append(Run(text, run.strong))
    while joined and joined[-1].text.endswith(" "):
        last = joined.pop()
        if last.text != " ":
            joined.append(Run(last.text[:-1], last.strong))
    return Block(kind, tuple(joined)) if joined else None


def _pieces(text: str) -> Iterator[tuple[BlockKind, str]]:
    """Blocks as their words still marked, with blanks of every kind folded."""
    open_kind, words = BlockKind.PARAGRAPH, list[str]()
    for line in (*text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), ""):
        stripped = " ".join(line.split())
        marked = next(((match[1], kind) for mark, kind in _MARKS if (match := mark.fullmatch(stripped))), None)
        if (marked is not None or not stripped) and words:
            yield open_kind, " ".join(filter(None, words))
            words = []
        if marked is not None:
            words, open_kind = [marked[0]], marked[1]
        elif stripped:
            open_kind = open_kind if words else BlockKind.PARAGRAPH
            words.append(stripped)
        if open_kind in (BlockKind.TITLE, BlockKind.HEADING) and words:
            yield open_kind, " ".join(filter(None, words))
            words = []


def _runs(words: str) -> Iterator[Run]:
    strong, place = False, 0
    for match in _INLINE.finditer(words):
        yield Run(words[place : match.start()], strong)
        if match[1]:
            yield Run(match[1], strong)
        else:
            strong = not strong
        place = match.end()
    yield Run(words[place:], strong)


def _written(block: Block) -> str:
    words = "".join(f"**{escape(run.text)}**" if run.strong else escape(run.text) for run in block.runs)
    return f"\\{words}" if words[0] in _ESCAPED_IN_FRONT else words
