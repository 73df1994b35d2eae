"""What changed between two texts, block by block and word by word, and why."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from dragoman.services.contracts.diff import Edit, Effort, edits
from dragoman.services.contracts.prose import Block, BlockKind, Blocks, escape, mark_of
from dragoman.services.contracts.typesetting import SetBlock, SetRun, plain

# A number is one word, with all that stands within it.
_TOKEN: Final = re.compile(r"\s+|\d+(?:[.,:/-]\d+)*|\w+|[^\w\s]")
_MOST_BLOCKS: Final = 1_000
_MOST_WORDS: Final = 400
_MOST_PAIRS: Final = 10_000
_ALIKE: Final = 0.4


class ChangeKind(StrEnum):
    """What was done to the words."""

    INSERTED = "inserted"
    DELETED = "deleted"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Change:
    """Words that became others; `clause` is the heading that they stand under."""

    number: int
    kind: ChangeKind
    clause: str | None
    before: str
    after: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Redline:
    """All changes, and the whole text with them to be seen."""

    changes: tuple[Change, ...]
    blocks: tuple[SetBlock, ...]

    def markdown(self) -> str:
        """As Markdown with the marks of editors: `{--deleted--}`, `{++inserted++}`, `{>>why<<}`."""
        return "\n\n".join(f"{mark_of(one.kind)}{''.join(map(_marked, one.runs))}" for one in self.blocks) + "\n"


Why = Callable[[str | None, str, str], str | None]
_Token = tuple[str, bool]
_Pair = tuple[Block | None, Block | None]


def compare(old: Blocks, new: Blocks, *, why: Why) -> Redline:
    """Set the new text beside the old; `why` gives the reason for a change by its clause and its words."""
    return _Comparison(why).run(old, new)


class _Comparison:
    """One walk through two texts."""

    def __init__(self, why: Why) -> None:
        self._why = why
        self._effort = Effort()
        self._changes: list[Change] = []
        self._blocks: list[SetBlock] = []
        self._clause: str | None = None

    def run(self, old: Blocks, new: Blocks) -> Redline:
        for edit in edits(old, new, most=_MOST_BLOCKS, effort=self._effort):
            kept = new[slice(*edit.new)]
            if not edit.changed:
                self._blocks += plain(kept)
                self._clause = next((one.text for one in reversed(kept) if _heads(one)), self._clause)
                continue
            for before, after in _paired(old[slice(*edit.old)], kept):
                self._take(before, after)
        return Redline(tuple(self._changes), tuple(self._blocks))

    def _take(self, before: Block | None, after: Block | None) -> None:
        head = after or before
        if head is not None and _heads(head):
            self._clause = head.text
        if before is not None and after is not None:
            runs = [
                run for edit in _word_edits(before, after, self._effort) for run in self._worded(edit, before, after)
            ]
            self._blocks.append(SetBlock(after.kind.value, runs))
        elif head is not None:
            kind = ChangeKind.DELETED if after is None else ChangeKind.INSERTED
            reason = self._note(kind, head.text if after is None else "", head.text if before is None else "")
            self._blocks.append(SetBlock(head.kind.value, _runs(_tokens(head), kind.value, reason)))

    def _worded(self, edit: Edit, before: Block, after: Block) -> Iterator[SetRun]:
        gone, come = _tokens(before)[slice(*edit.old)], _tokens(after)[slice(*edit.new)]
        if not edit.changed:
            yield from _runs(come, None, None)
            return
        kind = ChangeKind.REPLACED if gone and come else ChangeKind.DELETED if gone else ChangeKind.INSERTED
        reason = self._note(kind, _words(gone), _words(come))
        yield from _runs(gone, "deleted", None if come else reason)
        yield from _runs(come, "inserted", reason)

    def _note(self, kind: ChangeKind, before: str, after: str) -> str | None:
        before, after = before.strip() or before, after.strip() or after
        reason = self._why(self._clause, before, after)
        self._changes.append(Change(len(self._changes) + 1, kind, self._clause, before, after, reason))
        return reason


def _heads(block: Block) -> bool:
    return block.kind in (BlockKind.TITLE, BlockKind.HEADING)


def _tokens(block: Block) -> list[_Token]:
    return [(text, run.strong) for run in block.runs for text in _TOKEN.findall(run.text)]


def _words(tokens: Sequence[_Token]) -> str:
    return "".join(text for text, _ in tokens)


def _runs(tokens: Sequence[_Token], change: str | None, reason: str | None) -> list[SetRun]:
    """Tokens in one manner as one run; the last of them carries the reason."""
    runs: list[SetRun] = []
    for text, strong in tokens:
        if runs and runs[-1].strong == strong:
            runs[-1] = replace(runs[-1], text=runs[-1].text + text)
        else:
            runs.append(SetRun(text, strong, change))
    if runs and reason is not None:
        runs[-1] = replace(runs[-1], reason=reason)
    return runs


def _word_edits(before: Block, after: Block, effort: Effort) -> list[Edit]:
    """Changes of words; those with nothing but a blank between them are one, as a person would write it."""
    tokens = _tokens(after)
    merged: list[Edit] = []
    for edit in edits(_tokens(before), tokens, most=_MOST_WORDS, effort=effort):
        if edit.changed and len(merged) > 1 and not _words(tokens[slice(*merged[-1].new)]).strip():
            first = merged[-2]
            merged[-2:] = [Edit((first.old[0], edit.old[1]), (first.new[0], edit.new[1]), changed=True)]
        else:
            merged.append(edit)
    return merged


def _paired(old: Blocks, new: Blocks) -> Iterator[_Pair]:
    """Which block became which, in order: those that are alike, and the others by themselves."""
    x = y = 0
    for one, other in _matches(old, new):
        yield from ((block, None) for block in old[x:one])
        yield from ((None, block) for block in new[y:other])
        yield old[one], new[other]
        x, y = one + 1, other + 1
    yield from ((block, None) for block in old[x:])
    yield from ((None, block) for block in new[y:])


def _matches(old: Blocks, new: Blocks) -> list[tuple[int, int]]:
    """The pairs that are most alike together."""
    if len(old) * len(new) > _MOST_PAIRS:
        return [(place, place) for place in range(min(len(old), len(new))) if old[place].kind is new[place].kind]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for x in reversed(range(len(old))):
        for y in reversed(range(len(new))):
            alike = _likeness(old[x], new[y])
            taken = alike + best[x + 1][y + 1] if alike >= _ALIKE else 0.0
            best[x][y] = max(taken, best[x + 1][y], best[x][y + 1])
    found: list[tuple[int, int]] = []
    x = y = 0
    while x < len(old) and y < len(new):
        if best[x][y] == best[x + 1][y]:
            x += 1
        elif best[x][y] == best[x][y + 1]:
            y += 1
        else:
            found.append((x, y))
            x, y = x + 1, y + 1
    return found


def _likeness(one: Block, other: Block) -> float:
    """The share of words that both have; of a title or a place to sign, one takes the place of the other."""
    if one.kind is not other.kind:
        return 0.0
    mine, theirs = Counter(one.text.split()), Counter(other.text.split())
    share = 2 * (mine & theirs).total() / (mine.total() + theirs.total())
    return max(share, _ALIKE) if one.kind in (BlockKind.TITLE, BlockKind.SIGNATURE) else share


def _marked(run: SetRun) -> str:
    words = f"**{escape(run.text)}**" if run.strong else escape(run.text)
    if run.change is not None:
        words = f"{{--{words}--}}" if run.change == "deleted" else f"{{++{words}++}}"
    return f"{words}{{>>{escape(run.reason)}<<}}" if run.reason is not None else words
