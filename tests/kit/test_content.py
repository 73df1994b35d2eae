from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from dragoman.kit import Content, DataPart, FilePart, Part, TextPart, ToolCallPart, ToolResponsePart

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=3)
PARTS: st.SearchStrategy[Part] = st.one_of(
    st.builds(TextPart, text=st.text()),
    st.builds(DataPart, data=JSON),
    st.builds(FilePart, name=st.none() | st.text(), data=st.binary()),
    st.builds(FilePart, uri=st.text(min_size=1)),
    st.builds(ToolCallPart, id=st.text(), name=st.text(), arguments=OBJECTS),
    st.builds(ToolResponsePart, call_id=st.text(), name=st.text(), output=JSON, is_error=st.booleans()),
)
CONTENTS = st.builds(Content, parts=st.lists(PARTS, max_size=4).map(tuple))


class Point(BaseModel):
    x: int


@dataclass
class Pair:
    left: int


@given(CONTENTS)
def test_content_survives_json_both_ways(content: Content) -> None:
    assert Content.model_validate_json(content.model_dump_json()) == content
    assert Content.model_validate(content.model_dump(mode="json")) == content


def test_text_and_mappings_and_parts_become_content() -> None:
    image = FilePart(name="a.png", mime="image/png", data=b"\x89PNG\xff")

    content = Content.of(["hello", {"a": 1}, image, "world"])

    assert content.text == "hello\nworld"
    assert content.data == ({"a": 1},)
    assert content.files == (image,)
    assert Content.of(content) is content


@pytest.mark.parametrize("value", [Point(x=1), Pair(1), {1, 2}])
def test_a_data_part_writes_models_and_dataclasses_down(value: Any) -> None:
    data = DataPart(data=value).data

    assert data in ({"x": 1}, {"left": 1}, [1, 2])


def test_a_data_part_is_a_copy() -> None:
    given_by_caller = {"list": [1]}
    part = DataPart(data=given_by_caller)  # pyright: ignore[reportArgumentType] invariance of dict

    given_by_caller["list"].append(2)

    assert part.data == {"list": [1]}


@pytest.mark.parametrize("said", [42, None, b"bytes", [42], [None]])
def test_what_is_no_content_is_refused(said: Any) -> None:
    with pytest.raises(TypeError, match=r"not (int|NoneType|bytes)"):
        Content.of(said)


def test_a_file_has_bytes_or_an_address_never_both_or_neither() -> None:
    with pytest.raises(ValidationError, match="either data or a uri"):
        FilePart(name="a")
    with pytest.raises(ValidationError, match="either data or a uri"):
        FilePart(data=b"", uri="https://example.com")


def test_the_bytes_of_a_file_stay_out_of_its_repr() -> None:
    assert "secret" not in repr(FilePart(data=b"secret"))


def test_content_never_changes() -> None:
    content = Content.of("hello")

    with pytest.raises(ValidationError, match="frozen"):
        content.parts = ()  # pyright: ignore[reportAttributeAccessIssue] it is frozen


def test_an_unknown_kind_of_part_is_refused() -> None:
    with pytest.raises(ValidationError):
        Content.model_validate({"parts": [{"kind": "video", "text": "x"}]})
