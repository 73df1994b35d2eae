"""Changes that somebody asks for, made to a text."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from dragoman.errors import FieldError, InvalidInput
from dragoman.operations import Input
from dragoman.services.contracts.diff import common_length
from dragoman.services.contracts.models import VersionNumber
from dragoman.services.contracts.prose import Block, Blocks, Run, block_of
from dragoman.services.contracts.redlining import Why
from dragoman.text import Text

_LONGEST = 500_000
Words = Annotated[Text, StringConstraints(min_length=1, max_length=10_000)]
Reason = Annotated[Text, StringConstraints(min_length=1, max_length=2_000)]


class Replacement(Input):
    """Words to be put in place of others."""

    find: Words = Field(description="Words that stand in the document exactly once.")
    replace: Annotated[Text, StringConstraints(max_length=10_000)] = Field(description="What is to stand there.")
    reason: Reason | None = Field(None, description="Why.")


class Explanation(Input):
    """Why something was changed."""

    about: Words = Field(description="Words of the change, or of the heading that it stands under.")
    reason: Reason


class RedlineDocument(Input):
    """Show what changes, and why: between two versions, or to a new one that is made of what is given."""

    from_version: VersionNumber | None = Field(None, description="The earlier version; by default the one acted on.")
    to_version: VersionNumber | None = Field(None, description="The later version.")
    text: Annotated[Text, StringConstraints(min_length=1, max_length=_LONGEST)] | None = Field(
        None, description="The whole new text, in Markdown where the document is not plain text."
    )
    edits: tuple[Replacement, ...] | None = Field(None, min_length=1, max_length=200, description="Single changes.")
    reasons: tuple[Explanation, ...] = Field(default=(), max_length=200, description="Why, for single changes.")
    reason: Reason | None = Field(None, description="Why, for all changes without a reason of their own.")

    @model_validator(mode="after")
    def _one_of_three(self) -> Self:
        if sum(given is not None for given in (self.to_version, self.text, self.edits)) != 1:
            raise ValueError("give one of to_version, text and edits")
        if self.from_version is not None and self.from_version == self.to_version:
            raise ValueError("from_version and to_version are the same")
        return self


def reasons_of(given: RedlineDocument) -> Why:
    """Why a change was made, as far as it was said."""

    def why(clause: str | None, before: str, after: str) -> str | None:
        gone, come = before.strip().casefold(), after.strip().casefold()
        for edit in given.edits or ():
            if edit.reason is not None and gone in edit.find.casefold() and come in edit.replace.casefold():
                return edit.reason
        told = f"{clause or ''}\n{before}\n{after}".casefold()
        return next((one.reason for one in given.reasons if one.about.casefold() in told), given.reason)

    return why


def revise_text(text: str, edits: Sequence[Replacement]) -> str:
    """The text with the words replaced, each of them once.

    Raises:
        InvalidInput: some of the words stand there never, or more than once; it names all of these.
    """
    _check([text.count(edit.find) for edit in edits])
    for place, edit in enumerate(edits):
        # One may have taken away what another was to find.
        _check([1] * place + [text.count(edit.find)])
        text = text.replace(edit.find, edit.replace)
    return text


def revise_blocks(blocks: Blocks, edits: Sequence[Replacement]) -> Blocks:
    """The same for blocks; words are found whatever manner they are set in, and within one block.

    Raises:
        InvalidInput: as above.
    """
    revised = list(blocks)
    _check([sum(block.text.count(edit.find) for block in revised) for edit in edits])
    for place, edit in enumerate(edits):
        found = [number for number, block in enumerate(revised) for _ in range(block.text.count(edit.find))]
        _check([1] * place + [len(found)])
        changed = block_of(revised[found[0]].kind, _replaced(revised[found[0]], edit))
        revised[found[0] : found[0] + 1] = [changed] if changed is not None else []
    return tuple(revised)


def _replaced(block: Block, edit: Replacement) -> Iterator[Run]:
    # What stays at both ends stays in its manner, too.
    front = common_length(edit.find, edit.replace)
    back = common_length(edit.find[front:][::-1], edit.replace[front:][::-1])
    start = block.text.index(edit.find)
    end, start, place = start + len(edit.find) - back, start + front, 0
    last = block.runs[-1]
    for run in block.runs:
        stop = place + len(run.text)
        yield Run(run.text[: max(0, start - place)], run.strong)
        if place <= start < stop or (run is last and start == stop):
            yield Run(edit.replace[front : len(edit.replace) - back], run.strong)
        yield Run(run.text[max(0, end - place) :], run.strong)
        place = stop


def _check(counts: Sequence[int]) -> None:
    wrong = [
        FieldError(
            field=f"input.edits.{place}.find",
            message="does not stand in the document"
            if count == 0
            else f"stands in the document {count} times; give more of the words around it",
        )
        for place, count in enumerate(counts)
        if count != 1
    ]
    if wrong:
        raise InvalidInput(wrong)
