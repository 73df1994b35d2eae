import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.services.contracts.prose import Block, BlockKind, Run, read_markdown, read_plain, write_markdown

# Everything that could be a mark, and some words.
MARKED = st.text(st.sampled_from("#*->\\ \n\r\tab1._`~"), max_size=80)


def paragraph(*runs: Run) -> Block:
    return Block(BlockKind.PARAGRAPH, runs)


def test_the_marks_of_a_contract_are_read() -> None:
    text = "# Title\n\n## 1. First\nWords\nin **two** lines.\n\n- one\n- two\n\n> Acme"

    assert read_markdown(text) == (
        Block(BlockKind.TITLE, (Run("Title"),)),
        Block(BlockKind.HEADING, (Run("1. First"),)),
        paragraph(Run("Words in "), Run("two", strong=True), Run(" lines.")),
        Block(BlockKind.ITEM, (Run("one"),)),
        Block(BlockKind.ITEM, (Run("two"),)),
        Block(BlockKind.SIGNATURE, (Run("Acme"),)),
    )


@given(MARKED | st.text(max_size=80))
def test_what_is_written_reads_as_it_was(text: str) -> None:
    blocks = read_markdown(text)

    assert read_markdown(write_markdown(blocks)) == blocks


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Z"]), min_size=1, max_size=40))
def test_words_that_look_like_marks_stay_words(words: str) -> None:
    blocks = (paragraph(Run(words)), Block(BlockKind.SIGNATURE, (Run(words, strong=True),)))

    assert read_markdown(write_markdown(blocks)) == blocks


@pytest.mark.parametrize(
    "words", ["# no title", "- no item", "> nobody", "**not strong**", "\\", "* star", "1 * 2 * 3"]
)
def test_plain_text_has_no_marks(words: str) -> None:
    (block,) = read_plain(words)

    assert block == paragraph(Run(words))
    assert read_markdown(write_markdown([block])) == (block,)
