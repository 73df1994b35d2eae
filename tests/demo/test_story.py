"""The demo comes to its end: every promise in it is checked by itself while it is told."""

import subprocess

from tests.harness import DRAGOMAN


def test_the_story_is_told_to_its_end() -> None:
    done = subprocess.run([str(DRAGOMAN), "demo"], capture_output=True, text=True, timeout=180, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert "the same task" in done.stdout
    assert "SELF_APPROVAL" in done.stdout
    assert "deliveries in the book: 1" in done.stdout
    assert "the record was changed" in done.stdout
