"""Digests are of canonical JSON, by whichever way it is made."""

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import InvalidInput
from dragoman.infra.digests import canonical, digest_of

LARGEST = 2**53 - 1
SCALARS = st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS.filter(lambda one: one not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_the_short_way_to_canonical_json_writes_what_the_long_one_does(value: object) -> None:
    assert canonical(value) == rfc8785.dumps(value)  # pyright: ignore[reportArgumentType]


@given(st.text(st.characters(max_codepoint=0x2FFF)))
def test_strings_with_every_control_character_are_escaped_alike(text: str) -> None:
    assert canonical([text]) == rfc8785.dumps([text])


@pytest.mark.parametrize("number", [2**53, -(2**53), float("nan"), float("inf")])
def test_a_number_that_does_not_survive_json_is_refused(number: float) -> None:
    with pytest.raises(InvalidInput):
        digest_of("task.submit", {"amount": [number]})
