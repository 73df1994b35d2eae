"""`--idempotency-key`: a command that is repeated with the same key gets the first result."""

import json
from pathlib import Path

from tests.doors.cli.terminal import Terminal, Typed


def test_a_repeated_command_gets_the_first_result(terminal: Terminal, tenant: str) -> None:
    def create(key: str) -> Typed:
        return terminal.type("key", "create", "--tenant", tenant, "--name", "ci", "--idempotency-key", key, "--json")

    first, again, other = create("deploy-1"), create("deploy-1"), create("deploy-2")

    assert [typed.status for typed in (first, again, other)] == [0, 0, 0]
    assert again.data == first.data | {"secret": None}
    assert other.data["id"] != first.data["id"]


def test_the_same_key_with_another_input_is_a_conflict(terminal: Terminal, tenant: str) -> None:
    options = ("--tenant", tenant, "--idempotency-key", "deploy-1", "--json")
    terminal.type("key", "create", "--name", "ci", *options)

    other = terminal.type("key", "create", "--name", "nightly", *options)

    assert (other.status, other.data["error"]["code"]) == (1, "IDEMPOTENCY_CONFLICT")


def test_a_repeated_upload_is_one_document(terminal: Terminal, tenant: str, tmp_path: Path) -> None:
    terms = tmp_path / "terms.md"
    terms.write_text("# Terms\n")
    words = ("document", "add", str(terms), "--tenant", tenant, "--idempotency-key", "upload-1", "--json")

    first, again = terminal.type(*words), terminal.type(*words)

    assert (first.status, again.data) == (0, first.data)


def test_a_repeated_decision_about_a_capability_is_the_first(terminal: Terminal, tenant: str) -> None:
    words = ("capability", "deny", "signature.send", "--tenant", tenant, "--idempotency-key", "deny-1", "--json")

    first, again = terminal.type(*words), terminal.type(*words)

    assert (first.status, again.data) == (0, first.data)


def test_a_repeated_import_adds_each_piece_once(terminal: Terminal, tenant: str, tmp_path: Path) -> None:
    """A file is sent in pieces, and each piece has a key of its own."""
    memories = tmp_path / "memories.jsonl"
    terminal.type("memory", "add", "--content", "tea is green", "--layer", "user", "--tenant", tenant)
    exported = terminal.type("memory", "export", str(memories), "--tenant", tenant)
    lines = [json.loads(memories.read_text()) | {"content": f"fact {n}"} for n in range(150)]
    memories.write_text("\n".join(json.dumps(line) for line in lines))
    words = ("memory", "import", str(memories), "--tenant", tenant, "--json")

    first = terminal.type(*words, "--idempotency-key", "import-1")
    again = terminal.type(*words, "--idempotency-key", "import-1")
    without = terminal.type(*words)

    assert exported.status == 0
    assert first.status == 0, first.out
    assert again.data == first.data
    assert without.data["added"] == 0


def test_a_key_that_a_header_cannot_carry_is_wrong_usage(terminal: Terminal) -> None:
    wrong = terminal.type("key", "create", "--name", "ci", "--idempotency-key", "schlüssel", "--json")

    assert (wrong.status, wrong.data["error"]["code"]) == (2, "INVALID_PARAMS")
