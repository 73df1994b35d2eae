from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from dragoman.kit import Artifact, Content, DataPart, FilePart, TextPart


class Claim(BaseModel):
    amount: int


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


def test_chunks_are_joined_and_text_that_follows_text_is_one_text() -> None:
    chunks = [Artifact.from_text("t", "he"), Artifact.from_text("t", "llo"), Artifact.from_json("t", 1)]

    whole = Artifact.joined([*chunks, Artifact.from_text("t", "!")])

    assert whole.content == Content.of(["hello", DataPart(data=1), "!"])
    assert chunks[0].content.text == "he"


def test_text_with_other_labels_is_another_text() -> None:
    chunks = [Artifact.from_text("t", "a", mime="text/markdown"), Artifact.from_text("t", "b", mime="text/markdown")]

    whole = Artifact.joined([*chunks, Artifact.from_text("t", "c")])

    assert whole.content == Content.of([TextPart(text="ab", mime="text/markdown"), "c"])


def test_joining_many_chunks_is_linear() -> None:
    chunks = [Artifact.from_text("t", "x")] * 50_000

    assert Artifact.joined(chunks).size_bytes == 50_000


def test_what_json_cannot_say_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot be written as JSON"):
        Artifact.from_json("o", object())


def test_it_needs_a_name() -> None:
    with pytest.raises(ValidationError):
        Artifact.from_text("", "x")
