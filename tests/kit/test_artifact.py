from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from dragoman.kit import Artifact, FilePart


class Claim(BaseModel):
    amount: int


@pytest.mark.req("KIT-10")
def test_an_artifact_is_made_from_json_text_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(b"\x00\xff")

    by_bytes = Artifact.from_file("a.bin", "application/octet-stream", b"\x00\xff")

    assert Artifact.from_json("claim", Claim(amount=1)).content.data == ({"amount": 1},)
    assert Artifact.from_text("note", "hi", description="a note").content.text == "hi"
    assert by_bytes.content.files == (FilePart(name="a.bin", mime="application/octet-stream", data=b"\x00\xff"),)
    assert Artifact.from_file("a.bin", "application/octet-stream", file) == by_bytes
    assert Artifact.model_validate_json(by_bytes.model_dump_json()) == by_bytes


def test_its_size_is_what_it_holds() -> None:
    assert Artifact.from_text("t", "é").size_bytes == 2
    assert Artifact.from_json("j", {"a": [1]}).size_bytes == len('{"a":[1]}')
    assert Artifact.from_file("f", "image/png", b"123").size_bytes == 3


def test_a_chunk_extends_it_into_a_new_one() -> None:
    first, second = Artifact.from_text("t", "a"), Artifact.from_text("t", "b")

    assert first.extended(second).content.text == "a\nb"
    assert first.content.text == "a"


def test_what_json_cannot_say_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot be written as JSON"):
        Artifact.from_json("o", object())


def test_it_needs_a_name() -> None:
    with pytest.raises(ValidationError):
        Artifact.from_text("", "x")
