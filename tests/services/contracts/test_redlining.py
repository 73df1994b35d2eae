"""What changed and why, for any two texts: nothing is lost, nothing is made up."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import InvalidInput
from dragoman.services.contracts.diff import edits
from dragoman.services.contracts.prose import Blocks, read_markdown, read_plain
from dragoman.services.contracts.redlining import Change, ChangeKind, Redline, compare
from dragoman.services.contracts.revising import RedlineDocument, Replacement, reasons_of, revise_blocks, revise_text

SEQUENCES = st.lists(st.integers(0, 3), max_size=12)
WORDS = st.sampled_from(
    ["the", "parties", "agree", "24", "months", "**not**", ".", "to", "\n\n", "\n\n## 2. Term\n\n", "\n- "]
)
TEXTS = st.lists(WORDS, max_size=30).map(" ".join)
NDA = read_markdown(
    "# NDA\n\n## 1. Term\n\nIt runs for **24 months** from today.\n\n## 2. Law\n\nThe laws of France.\n"
)


def unexplained(clause: str | None, before: str, after: str) -> None:
    return None


def put(find: str, replace: str, reason: str | None = None) -> Replacement:
    return Replacement.model_validate({"find": find, "replace": replace, "reason": reason})


def longest_common(old: list[int], new: list[int]) -> int:
    table = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for x in reversed(range(len(old))):
        for y in reversed(range(len(new))):
            best = max(table[x + 1][y], table[x][y + 1])
            table[x][y] = table[x + 1][y + 1] + 1 if old[x] == new[y] else best
    return table[0][0]


@given(SEQUENCES, SEQUENCES, st.integers(0, 30))
def test_edits_cover_both_sequences_and_call_equal_what_is_equal(old: list[int], new: list[int], most: int) -> None:
    found = edits(old, new, most=most)

    assert [place for one in found for place in range(*one.old)] == list(range(len(old)))
    assert [place for one in found for place in range(*one.new)] == list(range(len(new)))
    assert all(one.changed or old[slice(*one.old)] == new[slice(*one.new)] for one in found)
    assert all(one.changed is not other.changed for one, other in pairwise(found))


@given(SEQUENCES, SEQUENCES)
def test_edits_keep_as_much_as_can_be_kept(old: list[int], new: list[int]) -> None:
    kept = sum(one.old[1] - one.old[0] for one in edits(old, new, most=100) if not one.changed)

    assert kept == longest_common(old, new)


def side(redline: Redline, gone: str) -> list[tuple[str, list[tuple[str, bool]]]]:
    """The words of one text, as the redline shows them: without those that the other has alone."""
    kept: list[tuple[str, list[tuple[str, bool]]]] = []
    for block in redline.blocks:
        letters = [(letter, run.strong) for run in block.runs if run.change != gone for letter in run.text]
        if letters:
            kept.append((block.kind, letters))
    return kept


def letters_of(blocks: Blocks) -> list[tuple[str, list[tuple[str, bool]]]]:
    return [(one.kind.value, [(letter, run.strong) for run in one.runs for letter in run.text]) for one in blocks]


@given(TEXTS, TEXTS)
def test_a_redline_holds_both_texts_whole(earlier: str, later: str) -> None:
    old, new = read_markdown(earlier), read_markdown(later)

    redline = compare(old, new, why=unexplained)

    assert side(redline, "inserted") == letters_of(old)
    assert side(redline, "deleted") == letters_of(new)
    assert [change.number for change in redline.changes] == list(range(1, len(redline.changes) + 1))


@given(TEXTS)
def test_a_text_beside_itself_shows_no_change(text: str) -> None:
    blocks = read_markdown(text)

    redline = compare(blocks, blocks, why=unexplained)

    assert redline.changes == ()
    assert all(run.change is None for block in redline.blocks for run in block.runs)


def test_a_change_names_its_clause_its_words_and_its_reason() -> None:
    longer = put("24 months", "36 months", "The project takes three years.")
    given = RedlineDocument.model_validate(
        {"edits": (longer, put("France", "Germany")), "reason": "Agreed by telephone."}
    )

    redline = compare(NDA, revise_blocks(NDA, given.edits or ()), why=reasons_of(given))

    assert redline.changes == (
        Change(1, ChangeKind.REPLACED, "1. Term", "24", "36", "The project takes three years."),
        Change(2, ChangeKind.REPLACED, "2. Law", "France", "Germany", "Agreed by telephone."),
    )
    assert "for **{--24--}" not in redline.markdown()
    assert "{--**24**--}{++**36**++}{>>The project takes three years.<<}** months**" in redline.markdown()


def test_a_whole_clause_that_comes_or_goes_is_one_change_each_block() -> None:
    later = read_markdown("# NDA\n\n## 1. Term\n\nIt runs for **24 months** from today.\n\n## 3. Notices\n\nBy mail.\n")

    redline = compare(NDA, later, why=unexplained)

    assert [(one.kind.value, one.before, one.after) for one in redline.changes] == [
        ("deleted", "2. Law", ""),
        ("deleted", "The laws of France.", ""),
        ("inserted", "", "3. Notices"),
        ("inserted", "", "By mail."),
    ]


@pytest.mark.parametrize("find", ["nowhere", "for", "months from the"])
def test_words_that_are_not_there_exactly_once_are_refused_all_at_once(find: str) -> None:
    wanted = [
        put("for 24", "for 12"),
        put(find if find != "for" else "s", ""),
    ]

    with pytest.raises(InvalidInput) as caught:
        revise_blocks(NDA, [*wanted, put("also missing", "")])

    assert [one["field"] for one in caught.value.details["errors"]] == ["input.edits.1.find", "input.edits.2.find"]


def test_an_edit_that_takes_away_what_the_next_one_needs_is_refused() -> None:
    wanted = [put("24 months", "a year"), put("months", "weeks")]

    with pytest.raises(InvalidInput) as caught:
        revise_text("for 24 months", wanted)

    assert [one["field"] for one in caught.value.details["errors"]] == ["input.edits.1.find"]


@given(st.integers(0, 37), st.integers(1, 10), st.text("xyz ", max_size=5))
def test_an_edit_changes_the_words_and_nothing_else(start: int, length: int, words: str) -> None:
    block = NDA[2]
    find = block.text[start : start + length]
    if block.text.count(find) != 1 or not find:
        return

    (changed, *_) = revise_blocks((block,), [put(find, words)])

    assert changed.text == " ".join(block.text.replace(find, words).split())


def test_texts_that_have_next_to_nothing_in_common_are_one_change_after_the_other() -> None:
    """Beyond a bound nobody looks for the fewest changes: it would take hours, and read no better."""
    old = read_markdown("# Same\n\n" + "\n\n".join(f"a{number}" for number in range(1_200)))
    new = read_markdown("# Same\n\n" + "\n\n".join(f"b{number}" for number in range(1_100)))

    redline = compare(old, new, why=unexplained)

    assert side(redline, "inserted") == letters_of(old)
    assert side(redline, "deleted") == letters_of(new)
    assert redline.blocks[0].runs[0].change is None


def test_the_effort_is_for_the_whole_text_and_what_comes_after_it_is_one_change_a_block() -> None:
    """Review finding 16: each block had its own bound, so that the cost grew with the number of blocks."""
    same, old, new = "same " * 40, "stays gone " * 90, "stays come " * 90
    before = read_plain("\n\n".join(f"{same}{place} {old}" for place in range(200)))
    after = read_plain("\n\n".join(f"{same}{place} {new}" for place in range(200)))

    changes = compare(before, after, why=lambda *_: None).changes

    assert (changes[0].before.count("gone"), changes[-1].before.count("gone")) == (1, 90)
