"""What is taken out of a memory before others see it, and what is left alone."""

import pytest

from dragoman.services.memory.privacy import clear


@pytest.mark.parametrize(
    ("said", "shown", "kinds"),
    [
        ("Ada's address is ada@example.com now.", "Ada's address is [email redacted] now.", ["email"]),
        ("Call her at +44 20 7946 0958 or later.", "Call her at [phone redacted] or later.", ["phone"]),
        ("The desk is (555) 010-4477, ask for Ivo.", "The desk is [phone redacted], ask for Ivo.", ["phone"]),
        ("She pays with 4111 1111 1111 1111 as ever.", "She pays with [card redacted] as ever.", ["card"]),
        ("Refund to GB82 WEST 1234 5698 7654 32 by Friday.", "Refund to [account redacted] by Friday.", ["account"]),
        ("Her number is 078-05-1120 on the form.", "Her number is [insurance redacted] on the form.", ["insurance"]),
        ("Deploy with AKIAIOSFODNN7EXAMPLE from now on.", "Deploy with [secret redacted] from now on.", ["secret"]),
        ("The service wants password=hunter2 today.", "The service wants password=[redacted] today.", ["secret"]),
    ],
)
def test_what_has_a_telling_shape_is_taken_out_and_named(said: str, shown: str, kinds: list[str]) -> None:
    cleared = clear(said, {}, [])

    assert (cleared.content, cleared.kinds, cleared.says_nothing) == (shown, kinds, False)


@pytest.mark.parametrize(
    "said",
    [
        "Apollo ships on 2026-11-16 at 05:30, build 20261116053000.",
        "The order 4111 1111 1111 1112 has no card in it.",
        "Version 10.20.30.40 answers on port 8080; ticket 555-1234.",
        "Tokens are counted by the thousand, and the key idea is order.",
    ],
)
def test_dates_versions_and_numbers_of_orders_stay(said: str) -> None:
    cleared = clear(said, {"build": said}, ["release"])

    assert (cleared.content, cleared.metadata, cleared.tags, cleared.kinds) == (said, {"build": said}, ["release"], [])


def test_metadata_and_tags_are_looked_through_as_well() -> None:
    cleared = clear(
        "Ada joins the project on Monday.",
        {"api_key": "abc", "contact": {"mail": ["ada@example.com"]}, "floor": 3},
        ["people", "ada@example.com"],
    )

    assert cleared.metadata == {"api_key": "[redacted]", "contact": {"mail": ["[email redacted]"]}, "floor": 3}
    assert (cleared.tags, cleared.kinds) == (["people"], ["email", "secret"])


def test_what_said_nothing_else_is_known_for_it() -> None:
    assert clear("ada@example.com +44 20 7946 0958", {}, []).says_nothing


def test_a_hostile_text_is_looked_through_in_no_time() -> None:
    for piece in ("1 ", "1-", "a@", "a.", "+1", "(1", "AA00 ", "A1A1 "):
        cleared = clear(piece * 20_000, {}, [])

        assert (cleared.content, cleared.kinds) == (piece * 20_000, [])
